import "../tools/pinned-node.mjs";
import { parseArgs } from "node:util";

const HELP = `usage: npm run bench -- [discover] [match] [disclose] [sandbox] [use] [runs] [mcp] [hooks] [capability] [render] [install] [supply] [embed] [overlap] [studio] [workers] [options]

  --sizes 100,1000,10000   how many skills to write and find; match takes the largest
  --runs 7                 rounds; one more before them warms up; sandbox takes ten times as many, and at least 50; use three times
  --no-peers               skip other programs, which are installed on the first run
  --queries FOLDER         match only: also measure the accuracy, with tools.json and queries.csv in that folder
  --before FOLDER          use only: another built checkout of skillet; compare the starts of both
  --json                   print the results as JSON
  --help                   this text
`;
/** Each has `NAME.mjs`, which exports a function of that name, and a report. */
const BENCHES = [
  ...["discover", "match", "disclose", "sandbox", "use", "runs", "mcp", "hooks", "capability", "render", "install"],
  ...["supply", "embed", "overlap", "studio", "workers"],
];

try {
  const { names, isHelp, isJson, ...options } = read(process.argv.slice(2));
  if (isHelp) process.stdout.write(HELP);
  else {
    const say = (line) => process.stderr.write(`${line}\n`);
    const results = {};
    for (const name of names) {
      const { [name]: measure } = await import(`./${name}.mjs`);
      const { asText, asJson } = await import(name === "discover" ? "./report.mjs" : `./${name}/report.mjs`);
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
  const unknown = positionals.find((name) => !BENCHES.includes(name));
  if (unknown !== undefined) throw new RangeError(`there is no bench "${unknown}": ${BENCHES.join(", ")}`);
  return {
    names: positionals.length > 0 ? positionals : BENCHES,
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
