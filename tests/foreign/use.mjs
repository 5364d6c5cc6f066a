// Uses an MCP server with the official TypeScript SDK, as a program would, and prints what came of it as JSON.
//
//   node use.mjs legacy|auto COMMAND [ARGUMENT]...

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [mode, command, ...args] = process.argv.slice(2);
const asked = [];
const progress = [];

const client = new Client(
  { name: "foreign", version: "1" },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } },
);
client.setRequestHandler("elicitation/create", async (request) => {
  asked.push(request.params.message);
  return { action: "accept", content: { allow: true } };
});
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));

const call = (name, given, options) => client.callTool({ name, arguments: given }, options);
const told = { protocol: client.getNegotiatedProtocolVersion?.() };
told.tools = (await client.listTools()).tools.map((tool) => tool.name);
told.turn = await call("ask-agent", { message: "note bread", session: "foreign" }, {
  onprogress: (said) => progress.push(said.message),
});
told.tool = await call("notes_add", { text: "milk" });
told.picture = await call("picture_draw", {});
told.two = (await Promise.all([call("ask-agent", { message: "one" }), call("ask-agent", { message: "two" })])).map(
  (result) => result.content[0].text,
);

const ending = new AbortController();
const endless = call("paint_dry", {}, { signal: ending.signal });
setTimeout(() => ending.abort("enough"), 500);
told.cancelled = await endless.then(() => false, () => true);

const tapes = (await client.listResources()).resources;
told.tapes = tapes.map((tape) => tape.name);
const tape = tapes.find((one) => one.name === "mcp:foreign");
told.tape = (await client.readResource({ uri: tape.uri })).contents[0].text;
await client.close();
console.log(JSON.stringify({ ...told, asked, progress }));
