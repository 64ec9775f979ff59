import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { CLOCK_TICK, environment } from "../contenders.mjs";
import { median, run } from "../measure.mjs";
import { installPeers } from "../peers.mjs";
import { withPlace } from "../place.mjs";
import { CONTENDERS } from "./contenders.mjs";
import { makeQueries } from "./queries.mjs";
import { makeSkills, writeSkills } from "./skills.mjs";

const QUERIES = 400;
const QUERY_ROUNDS = 5;
const QUERY_SECONDS = 10;
const FEW = 3;
const PEER = { name: "minisearch", packages: ["minisearch@7.2.0"] };

/** Measures building and querying a matcher, compared with alternatives. Each measurement is a separate process. */
export async function speed({ size, runs, withPeers, say }) {
  const [peer] = withPeers ? installPeers(say, [PEER]) : [{ absent: "left out" }];
  return withPlace(async (place) => {
    say(`${size} skills with triggers: writing`);
    const child = await prepare({ place, size, folder: peer.folder });
    const contenders = Object.keys(CONTENDERS).map((name) => ({ name, samples: [] }));
    for (const contender of contenders) if (contender.name === PEER.name) contender.absent = peer.absent;
    for (let round = 1; round <= runs; round++) {
      say(`matching: round ${round} of ${runs}`);
      for (const { name, samples, absent } of contenders) {
        if (absent || (round > FEW && name !== "skillet")) continue;
        samples.push(await child({ contender: name, rounds: QUERY_ROUNDS, seconds: QUERY_SECONDS }));
      }
    }
    say("matching: the worst queries");
    return {
      size,
      runs,
      few: Math.min(runs, FEW),
      queries: QUERIES,
      rows: contenders.map(rowOf),
      worst: await child({ task: "worst" }),
    };
  });
}

/** Writes the skills, the queries and the index, and returns a function that runs a task on them. */
async function prepare({ place, size, folder }) {
  const work = { skills: join(place, "skills"), indexFolder: join(place, "index"), queries: join(place, "queries") };
  const skills = makeSkills(size);
  writeSkills(work.skills, skills);
  writeFileSync(work.queries, JSON.stringify(makeQueries(skills, QUERIES)));
  const child = (task) => runChild({ ...work, folder, ...task }, place);
  // Once to write the index, and again because files that were too new are read again.
  for (let count = 0; count < 2; count++) {
    await setTimeout(CLOCK_TICK);
    await child({ contender: "skillet", rounds: 1, seconds: 1 });
  }
  return child;
}

async function runChild(task, place) {
  const file = join(import.meta.dirname, "child.mjs");
  const command = { file: process.execPath, args: [file, JSON.stringify(task)], cwd: place, env: environment(place) };
  const { output, problem } = await run(command);
  if (problem) throw new Error(`measuring ${task.contender ?? task.task} ${problem}`);
  return JSON.parse(output);
}

function rowOf({ name, samples, absent }) {
  if (absent) return { name, absent };
  const middle = (key) => median(samples.map((sample) => sample[key]));
  const times = samples.flatMap((sample) => sample.times).sort((a, b) => a - b);
  return {
    name,
    found: samples[0].found,
    hits: samples[0].hits,
    open: middle("open"),
    build: middle("build"),
    leastBuild: Math.min(...samples.map(({ build }) => build)),
    again: middle("again"),
    first: middle("first"),
    median: median(times),
    p99: times[Math.floor(times.length * 0.99)],
    most: times.at(-1),
    megabytes: middle("megabytes"),
  };
}
