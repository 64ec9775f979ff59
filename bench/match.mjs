import { quality } from "./match/quality.mjs";
import { search } from "./match/search.mjs";
import { speed } from "./match/speed.mjs";
import { tokens } from "./match/tokens.mjs";

/** Measures matching: how fast with the largest size, what a model's text costs, and, given queries with answers, how well. */
export async function match({ sizes, runs, withPeers, queries, say }) {
  return {
    tokens: await tokens(),
    quality: queries === undefined ? undefined : await quality({ folder: queries, say }),
    speed: await speed({ size: Math.max(...sizes), runs, withPeers, say }),
    search: await search({ say }),
  };
}
