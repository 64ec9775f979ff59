import { quality } from "./match/quality.mjs";
import { search } from "./match/search.mjs";
import { speed } from "./match/speed.mjs";
import { tokens } from "./match/tokens.mjs";

/** Measures matching: its speed with the largest size, the tokens of its texts, and, for queries with answers, its accuracy. */
export async function match({ sizes, runs, withPeers, queries, say }) {
  return {
    tokens: await tokens(),
    quality: queries === undefined ? undefined : await quality({ folder: queries, say }),
    speed: await speed({ size: Math.max(...sizes), runs, withPeers, say }),
    search: await search({ say }),
  };
}
