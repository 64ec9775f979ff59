import { parseArgs } from "node:util";
import * as capabilityReport from "./capability/report.mjs";
import { capability } from "./capability.mjs";
import * as discloseReport from "./disclose/report.mjs";
import { disclose } from "./disclose.mjs";
import { discover } from "./discover.mjs";
import * as embedReport from "./embed/report.mjs";
import { embed } from "./embed.mjs";
import * as hooksReport from "./hooks/report.mjs";
import { hooks } from "./hooks.mjs";
import * as installReport from "./install/report.mjs";
import { install } from "./install.mjs";
import * as matchReport from "./match/report.mjs";
import { match } from "./match.mjs";
import * as mcpReport from "./mcp/report.mjs";
import { mcp } from "./mcp.mjs";
import * as overlapReport from "./overlap/report.mjs";
import { overlap } from "./overlap.mjs";
import * as renderReport from "./render/report.mjs";
import { render } from "./render.mjs";
import * as discoverReport from "./report.mjs";
import * as runsReport from "./runs/report.mjs";
import { runs } from "./runs.mjs";
import * as sandboxReport from "./sandbox/report.mjs";
import { sandbox } from "./sandbox.mjs";
import * as studioReport from "./studio/report.mjs";
import { studio } from "./studio.mjs";
import * as supplyReport from "./supply/report.mjs";
import { supply } from "./supply.mjs";
import * as useReport from "./use/report.mjs";
import { use } from "./use.mjs";

const HELP = `usage: npm run bench -- [discover] [match] [disclose] [sandbox] [use] [runs] [mcp] [hooks] [capability] [render] [install] [supply] [embed] [overlap] [studio] [options]

  --sizes 100,1000,10000   how many skills to write and find; match takes the largest
  --runs 7                 rounds; one more before them warms up; sandbox takes ten times as many, and at least 50; use three times
  --no-peers               skip other programs, which are installed on the first run
  --queries FOLDER         match only: also measure the accuracy, with tools.json and queries.csv in that folder
  --before FOLDER          use only: another built checkout of skillet; compare the starts of both
  --json                   print the results as JSON
  --help                   this text
`;
const BENCHES = {
  discover: { measure: discover, ...discoverReport },
  match: { measure: match, ...matchReport },
  disclose: { measure: disclose, ...discloseReport },
  sandbox: { measure: sandbox, ...sandboxReport },
  use: { measure: use, ...useReport },
  runs: { measure: runs, ...runsReport },
  mcp: { measure: mcp, ...mcpReport },
  hooks: { measure: hooks, ...hooksReport },
  capability: { measure: capability, ...capabilityReport },
  render: { measure: render, ...renderReport },
  install: { measure: install, ...installReport },
  supply: { measure: supply, ...supplyReport },
  embed: { measure: embed, ...embedReport },
  overlap: { measure: overlap, ...overlapReport },
  studio: { measure: studio, ...studioReport },
};

try {
  const { names, isHelp, isJson, ...options } = read(process.argv.slice(2));
  if (isHelp) process.stdout.write(HELP);
  else {
    const say = (line) => process.stderr.write(`${line}\n`);
    const results = {};
    for (const name of names) {
      const { measure, asText, asJson } = BENCHES[name];
      const result = await measure({ ...options, say });
      if (isJson) results[name] = asJson(result);
      else process.stdout.write(`${asText(result)}\n`);
    }
    if (isJson) process.stdout.write(`${JSON.stringify(results, null, 2)}\n`);
  }
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = error.code?.startsWith("ERR_PARSE_ARGS") || error instanceof RangeError ? 2 : 1;
}

function read(args) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    allowNegative: true,
    options: {
      sizes: { type: "string", default: "100,1000,10000" },
      runs: { type: "string", default: "7" },
      peers: { type: "boolean", default: true },
      queries: { type: "string" },
      before: { type: "string" },
      json: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  const unknown = positionals.find((name) => !Object.hasOwn(BENCHES, name));
  if (unknown !== undefined) throw new RangeError(`there is no bench "${unknown}": ${Object.keys(BENCHES).join(", ")}`);
  return {
    names: positionals.length > 0 ? positionals : Object.keys(BENCHES),
    sizes: values.sizes.split(",").map((text) => positive(text, "--sizes")),
    runs: positive(values.runs, "--runs"),
    withPeers: values.peers,
    queries: values.queries,
    before: values.before,
    isJson: values.json,
    isHelp: values.help,
  };
}

function positive(text, option) {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1)
    throw new RangeError(`${option} takes whole numbers above 0, not "${text}"`);
  return number;
}
