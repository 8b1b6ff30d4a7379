// A client on one of the official TypeScript SDKs, told by lines of JSON on
// standard input what to do: {id, do, ...}. It answers each with {id, result} or
// {id, error}, and says {id, progress} meanwhile. SDK is the folder of the
// package; ERA the version to speak; URL and TOKEN, or COMMAND (JSON, a command
// line), where Berth is; TASKS, when set, declares the extension.
import { createInterface } from "node:readline";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const v2 = process.env.SDK.endsWith("client");
const load = (...path) => import(pathToFileURL(join(process.env.SDK, "dist", ...path)).href);
const { Client } = v2 ? await load("index.mjs") : await load("esm", "client", "index.js");
const { StreamableHTTPClientTransport } = v2 ? await load("index.mjs") : await load("esm", "client", "streamableHttp.js");
const { StdioClientTransport } = v2 ? await load("stdio.mjs") : await load("esm", "client", "stdio.js");

const options = { capabilities: { elicitation: { form: {} } } };
if (process.env.TASKS) options.capabilities.extensions = { "io.modelcontextprotocol/tasks": {} };
if (process.env.ERA >= "2026") options.versionNegotiation = { mode: { pin: process.env.ERA } };
const client = new Client({ name: "typescript", version: "1" }, options);
const answer = (request) => {
  const asks = request.params.requestedSchema.properties;
  return { action: "accept", content: asks.confirm ? { confirm: true } : { name: "Ada" } };
};
if (v2) {
  client.setRequestHandler("elicitation/create", answer);
} else {
  const { ElicitRequestSchema } = await load("esm", "types.js");
  client.setRequestHandler(ElicitRequestSchema, answer);
}
let transport;
if (process.env.COMMAND) {
  const [command, ...args] = JSON.parse(process.env.COMMAND);
  transport = new StdioClientTransport({ command, args, env: process.env });
} else {
  transport = new StreamableHTTPClientTransport(new URL(process.env.URL), {
    requestInit: { headers: { Authorization: `Bearer ${process.env.TOKEN}` } },
  });
}
await client.connect(transport);

const anything = { "~standard": { version: 1, vendor: "test", validate: (value) => ({ value }) } };
const running = new Map(); // what can be aborted, by id
const text = (result) => result.content?.[0]?.text ?? JSON.stringify(result);

const actions = {
  version: () => (v2 ? client.getNegotiatedProtocolVersion() : transport.protocolVersion) ?? transport._protocolVersion ?? process.env.ERA,
  list: async () => (await client.listTools()).tools.map((tool) => tool.name),
  call: async (m) => {
    const abort = new AbortController();
    running.set(m.id, abort);
    const params = { name: m.tool, arguments: m.arguments };
    const how = { signal: abort.signal, timeout: 300000, onprogress: (p) => say({ id: m.id, progress: p.progress }) };
    return text(v2 ? await client.callTool(params, how) : await client.callTool(params, undefined, how));
  },
  cancel: (m) => running.get(m.call).abort(),
  // begin asks for a task and gives its id.
  begin: async (m) => {
    const params = { name: m.tool, arguments: m.arguments };
    if (v2) {
      if (process.env.ERA < "2026") params.task = {};
      const result = await client.callTool(params, { timeout: 300000 });
      throw new Error("no task but " + JSON.stringify(result));
    }
    for await (const message of client.experimental.tasks.callToolStream(params, undefined, { task: {} })) {
      if (message.type === "taskCreated") return message.task.taskId;
      if (message.type === "error") throw message.error;
    }
    throw new Error("no task");
  },
  // poll asks once: {status, text}.
  poll: async (m) => {
    if (v2) {
      const task = await client.request({ method: "tasks/get", params: { taskId: m.task } }, anything);
      return { status: task.status, text: task.result ? text(task.result) : "" };
    }
    const { status } = await client.experimental.tasks.getTask(m.task);
    const { CallToolResultSchema } = await load("esm", "types.js");
    const ended = status !== "working" && (await client.experimental.tasks.getTaskResult(m.task, CallToolResultSchema));
    return { status, text: ended ? text(ended) : "" };
  },
};

const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
say({ id: 0, result: "connected" });
const lines = createInterface({ input: process.stdin });
lines.on("line", async (line) => {
  const m = JSON.parse(line);
  try {
    say({ id: m.id, result: (await actions[m.do](m)) ?? null });
  } catch (error) {
    say({ id: m.id, error: String(error) });
  }
});
lines.on("close", async () => {
  await client.close();
  process.exit(0);
});
