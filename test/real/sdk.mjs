// A client on the official TypeScript SDK, which checks what it receives: it
// lists, then makes the calls of CALLS (JSON: [[name, arguments], ...]) and
// prints what its callTool gave, one JSON object a line. THE-JOB in arguments is
// the id in the last job record.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const resolve = createRequire(process.env.EVERYTHING).resolve;
const load = (path) => import(pathToFileURL(resolve("@modelcontextprotocol/sdk/" + path)).href);
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");

const client = new Client({ name: "typescript-sdk", version: "1" });
await client.connect(
  new StreamableHTTPClientTransport(new URL(process.env.URL), {
    requestInit: { headers: { Authorization: `Bearer ${process.env.TOKEN}` } },
  }),
);
await client.listTools(); // it keeps the output schemas
let job = "";
for (const [name, args] of JSON.parse(process.env.CALLS)) {
  let line;
  try {
    const result = await client.callTool({ name, arguments: JSON.parse(JSON.stringify(args).replaceAll("THE-JOB", job)) });
    job = /"JobId":"([^"]+)"/.exec(result.content?.[0]?.text ?? "")?.[1] ?? job;
    line = { result };
  } catch (error) {
    line = { thrown: String(error) };
  }
  console.log(JSON.stringify(line));
}
await client.close();
