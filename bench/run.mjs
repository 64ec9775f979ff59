import { parseArgs } from "node:util";
import { discover } from "./discover.mjs";
import { asJson, asText } from "./report.mjs";

const HELP = `usage: npm run bench -- [discover] [options]

  --sizes 100,1000,10000   how many skills to write and find
  --runs 7                 rounds; one more before them warms up
  --no-peers               leave out the programs of others, which are installed on the first run
  --json                   print the results as JSON
  --help                   this text
`;
const BENCHES = { discover };

try {
  const { names, isHelp, isJson, ...options } = read(process.argv.slice(2));
  if (isHelp) process.stdout.write(HELP);
  else {
    const say = (line) => process.stderr.write(`${line}\n`);
    for (const name of names) {
      const report = await BENCHES[name]({ ...options, say });
      process.stdout.write(isJson ? asJson(report) : asText(report));
    }
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
