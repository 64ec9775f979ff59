import { ROWS } from "./corpus/skills.mjs";
import { isNamed } from "./models/conversation.mjs";

/** One row per fact of the conversation, from the messages to the server (`wire`) and to the model (`requests`). */
const CONVERSATION = [
  ["conversation", ({ problems }) => (problems.length === 0 ? "✓" : "✗")],
  ["seconds", ({ seconds }) => seconds?.toFixed(1)],
  ["protocol", ({ wire }) => protocol(wire)],
  ["name of list_skills", ({ called }) => called[0]],
  ["tools offered", (seen) => taken(seen)],
  ["offered with schema", ({ requests }) => schema(requests)],
  ["new tool offered", (seen) => refreshed(seen)],
  [
    "skill's tool called",
    ({ called }) => called[2] && (isNamed(called[2], "greeter__greet") ? "itself" : "by call_skill_tool"),
  ],
  ["model is shown", (seen) => shown(seen)],
  ["list of 60 skills", ({ requests }) => listed(requests)],
  ["instructions", (seen) => instructions(seen)],
  ["also asked for", ({ wire }) => others(wire)],
  ["offers the server", ({ wire }) => capabilities(wire)],
  ["server at the end", ({ wire, left }) => wire.length > 0 && (left.length > 0 ? "left running" : "ended")],
  [
    "tried to reach",
    ({ elsewhere = [] }) => elsewhere.map((host) => host.replace(/:443$/, "")).join(" ") || "nothing else",
  ],
];

/** One row per fact about a client's listing of sixty skills. */
const SHOWN = [
  ["own listing of copies", ({ copies }) => copies && counts(copies)],
  ["listing of the server", ({ hook }) => hook?.served && counts(hook.served)],
  ["right skill in request 1", ({ hook }) => hook && `${hook.found.length} of ${hook.asked}`],
  ["… by the hook", ({ hook }) => hook && `${hook.byHook.length} of ${hook.asked}`],
  ["unrelated: full text", ({ hook }) => hook && `${hook.withText.length} of ${hook.unrelated}`],
  ["unrelated: shortlist", ({ hook }) => hook && `${hook.withList.length} of ${hook.unrelated}`],
  ["characters added, most", ({ hook }) => hook && String(Math.max(...hook.added))],
  ["folders as in the table", ({ folders }) => folders && sameFolders(folders)],
  ["as an arm of `eval`", ({ agent }) => agent?.passed && `${agent.passed.skill} with, ${agent.passed.none} without`],
  ["transcripts", ({ transcripts }) => transcripts?.mined && (transcripts.problems.length === 0 ? "✓" : "✗")],
];

function counts({ names, descriptions, cues }) {
  return `${names} names, ${descriptions} descriptions, ${cues} cues`;
}

function sameFolders({ rows }) {
  const wrong = rows.filter(({ isRead, isExpected }) => isRead !== isExpected);
  const list = wrong.map(({ folder, isRead }) => `${isRead ? "reads" : "does not read"} ${folder}`);
  return wrong.length === 0
    ? `all ${rows.length}, of which it reads ${rows.filter(({ isRead }) => isRead).length}`
    : list.join(", ");
}

/** Formats the facts about some clients, side by side. */
export function table(columns) {
  const heads = ["", ...columns.map(({ head }) => head)];
  const rows = [
    ...CONVERSATION.map(([label, tell]) => [
      label,
      ...columns.map(({ seen }) => fact(tell, { wire: [], left: [], ...seen })),
    ]),
    ...(columns.some(({ hook }) => hook)
      ? SHOWN.map(([label, tell]) => [label, ...columns.map((column) => fact(tell, column))])
      : []),
  ];
  const widths = heads.map((head, index) => Math.max(head.length, 3, ...rows.map((row) => row[index].length)));
  const line = (cells) => `| ${cells.map((cell, index) => cell.padEnd(widths[index])).join(" | ")} |`;
  return [line(heads), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}

function fact(tell, of) {
  return tell(of) || "not seen";
}

function protocol(wire) {
  return answered(wire, "initialize")?.protocolVersion ?? (answered(wire, "server/discover") && "2026-07-28");
}

function taken({ wire, requests: [first] }) {
  const has = answered(wire, "tools/list")?.tools.map(({ name }) => name);
  if (!has || !first) return undefined;
  const missing = has.filter((name) => !first.tools.some((tool) => isNamed(tool.name, name)));
  return `${has.length - missing.length} of ${has.length}${missing.length > 0 ? `, not ${missing.join(" ")}` : ""}`;
}

function schema([first]) {
  const tool = first?.tools.find(({ name }) => isNamed(name, "list_skills"));
  return tool && (tool.first ? "no, fetched by name" : "yes");
}

/** Returns when the tool of a loaded skill was first offered: with the result of loading, or later. */
function refreshed({ wire, requests }) {
  const after = requests.filter(({ step }) => step >= 2);
  if (after.length === 0) return undefined;
  const place = after.findIndex(({ tools }) => tools.some(({ name }) => isNamed(name, "greeter__greet")));
  if (place >= 0) return place === 0 ? "at once" : `${place} late`;
  return said(wire, "client").filter(({ method }) => method === "tools/list").length > 1
    ? "not this turn"
    : "no, never asks";
}

function shown({ wire, requests }) {
  const call = said(wire, "client").find(
    ({ method, params }) => method === "tools/call" && params.name === "list_skills",
  );
  const result = said(wire, "server").find(({ id }) => call && id === call.id)?.result;
  const text = requests.find(({ step }) => step === 1)?.results[0];
  if (!result || text === undefined) return undefined;
  return text.includes(JSON.stringify(result.structuredContent)) ? "structuredContent" : "content";
}

function listed(requests) {
  const text = requests.find(({ step }) => step === 1)?.results[0];
  return text && (ROWS.every(([name]) => text.includes(`"${name}"`)) ? "whole" : "cut");
}

function instructions({ wire, requests: [first] }) {
  const text = (answered(wire, "initialize") ?? answered(wire, "server/discover"))?.instructions;
  if (!first || text === undefined) return undefined;
  // Line by line: a client may indent some lines.
  const lines = text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.stringify(line).slice(1, -1));
  const told = lines.filter((line) => first.body.includes(line));
  if (told.length === lines.length) return "whole";
  return told.length > 0 ? "cut" : "no";
}

const EXPECTED = ["initialize", "server/discover", "notifications/initialized", "tools/list", "tools/call"];

function others(wire) {
  const methods = said(wire, "client").flatMap(({ method }) => (method && !EXPECTED.includes(method) ? [method] : []));
  return [...new Set(methods)].join(" ") || "nothing";
}

function capabilities(wire) {
  const first = said(wire, "client").find(({ method }) => method === "initialize" || method === "server/discover");
  if (!first) return undefined;
  const { capabilities: stated = first.params._meta?.["io.modelcontextprotocol/clientCapabilities"] } = first.params;
  return Object.keys(stated ?? {}).join(" ") || "nothing";
}

/** Returns the server's answer to the first request of this method. */
function answered(wire, method) {
  const request = said(wire, "client").find((message) => message.method === method);
  return request && said(wire, "server").find(({ id }) => id === request.id)?.result;
}

function said(wire, who) {
  return wire.flatMap(({ from, message }) => (from === who && message ? message : []));
}
