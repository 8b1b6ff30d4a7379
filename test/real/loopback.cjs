// Loaded into the server of another project (node --require) so that it listens
// on loopback only, on a port that is free, and says which: it has no option
// for either. Nothing else of it is changed.
const net = require("node:net");
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  this.once("listening", () => console.error(`listens on ${this.address().port}`));
  return listen.call(this, { port: Number(port), host: "127.0.0.1" }, ...rest);
};
