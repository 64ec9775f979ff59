/** The program of a provider: serves `desk.tickets`, and records each request in a file next to it. */
export const DESK = `
const fs = require("node:fs");
const { method, id } = JSON.parse(fs.readFileSync(0, "utf8"));
const answer = (result) => fs.writeSync(1, JSON.stringify({ version: 1, id, ok: true, result }));
const operation = { name: "list", description: "Lists tickets", mutating: false, input_schema: { type: "object" } };
const tickets = { id: "desk.tickets", description: "Tickets.", operations: [operation] };
if (method === "describe") answer({ capabilities: [tickets] });
if (method === "health") answer({ is_ready: true });
if (method === "invoke") {
  fs.appendFileSync(require("node:path").join(__dirname, "asked"), "asked\\n");
  answer({ output: { found: "ticket 7" } });
}
`;
