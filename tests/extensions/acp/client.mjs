// An editor as the npm package @agentclientprotocol/sdk makes one: it follows a script of steps, and prints what it saw.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [sdk, steps, command, ...args] = process.argv.slice(2);
const acp = await import(pathToFileURL(sdk).href);
const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const seen = { updates: [], asked: [], commands: [], stops: [] };
let sessionId = "";
let cancelsAtText = false;

const methods = acp.methods;
const app = acp
  .client({ name: "a test" })
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    seen.asked.push(params);
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .onNotification(methods.client.session.update, async ({ params }) => {
    if (params.update.sessionUpdate === "available_commands_update") {
      seen.commands.push({ isKnown: params.sessionId === sessionId, ...params.update });
      return;
    }
    seen.updates.push(params.update);
    if (cancelsAtText && params.update.sessionUpdate === "agent_message_chunk") {
      cancelsAtText = false;
      await peer.notify(methods.agent.session.cancel, { sessionId });
    }
  });
let peer;
await app.connectWith(stream, async (context) => {
  peer = context;
  const hello = { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} };
  seen.initialized = await peer.request(methods.agent.initialize, hello);
  for (const step of JSON.parse(steps)) {
    try {
      if (step.load) {
        sessionId = step.load;
        await peer.request(methods.agent.session.load, { sessionId, cwd: "/", mcpServers: [] });
        continue;
      }
      if (!sessionId) {
        ({ sessionId } = await peer.request(methods.agent.session.new, { cwd: "/", mcpServers: [] }));
      }
      cancelsAtText = Boolean(step.cancels);
      const answer = await peer.request(methods.agent.session.prompt, { sessionId, prompt: step.prompt });
      seen.stops.push(answer.stopReason);
    } catch (error) {
      seen.stops.push(`error ${error.code}: ${error.message}`);
    }
  }
});
seen.sessionId = sessionId;
agent.stdin.end();
await new Promise((ended) => agent.on("close", ended));
process.stdout.write(JSON.stringify(seen));
