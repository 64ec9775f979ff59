import { rmSync } from "node:fs";
import { capture, textsIn } from "./capture.mjs";
import { QUERIES, UNRELATED } from "./corpus/queries.mjs";
import { ROWS } from "./corpus/skills.mjs";
import { connect, openCorpusHome, skillet } from "./home.mjs";

/** A prompt that matches no skill. */
const NEUTRAL = "ok";

/** Counts the names and descriptions in the client's listing of the corpus, with copies from `skillet export`. */
export async function measureCopies(client) {
  const home = openCorpusHome(client.name);
  skillet(home, "export", "--to", client.name);
  return closing(home, async () => {
    const { first, problems } = await capture(client, home, NEUTRAL);
    return { problems, ...countSeen(textsIn(first)) };
  });
}

/** Counts the names and descriptions in the client's listing of a server, and the characters that the prompt hook adds to each prompt. */
export async function measureHook(client) {
  const home = openCorpusHome(client.name);
  connect(home, client);
  return closing(home, async () => {
    const problems = [];
    const request = async (prompt) => {
      const captured = await capture(client, home, prompt);
      problems.push(...captured.problems);
      return {
        text: textsIn(captured.first),
        advice: adviceIn(captured.first),
        raw: rawAdvice(captured.first),
        prompt,
      };
    };
    const idle = await request(NEUTRAL);
    const asked = [];
    for (const [query, name] of QUERIES) asked.push({ name, ...(await request(query)) });
    const unrelated = [];
    for (const prompt of UNRELATED) unrelated.push(await request(prompt));
    return {
      problems,
      asked: asked.length,
      unrelated: unrelated.length,
      served: countSeen(idle.text),
      found: asked.filter(({ name, text }) => isShown(name, text)),
      missed: asked.filter(({ name, text }) => !isShown(name, text)),
      byHook: asked.filter(({ name, advice }) => isShown(name, advice)),
      withText: unrelated.filter(({ advice }) => ROWS.some(([name]) => hasInstructions(name, advice))),
      withList: unrelated.filter(({ advice }) => advice !== ""),
      added: [...asked, ...unrelated].map(({ advice }) => advice.length),
    };
  });
}

/** The bars for a client: the right skill nearly always, and nothing for unrelated prompts. */
const BAR = { found: 18, withText: 0, withList: 1, added: 9_500 };

/** Returns a sentence for each bar that a measured client does not reach. */
export function problemsIn({ found, missed, withText, withList, added, asked, unrelated }) {
  const most = Math.max(...added);
  return [
    found.length < BAR.found &&
      `the right skill is in ${found.length} of ${asked} requests, not in those for ${missed.map(({ name }) => name).join(", ")}`,
    withText.length > BAR.withText && `${withText.length} of ${unrelated} unrelated prompts got instructions`,
    withList.length > BAR.withList &&
      `${withList.length} of ${unrelated} unrelated prompts got a shortlist: ${withList.map(({ prompt }) => prompt).join(" | ")}`,
    most > BAR.added && `a hook added ${most} characters`,
  ].filter(Boolean);
}

async function closing(home, work) {
  const result = await work();
  if (result.problems.length > 0) return { ...result, folder: home.path };
  rmSync(home.path, { recursive: true, force: true });
  return result;
}

/** The start of a hook's text, without the client's wrapper. */
const ADVICE = /Skills that may fit this request|The skill \S+ matches this request/;
const END = /<\/(?:system-reminder|system_reminder|hook_context)>/;

/** Returns the text that the hook added to a request, or an empty string. */
export function adviceIn(value) {
  if (typeof value === "string")
    return ADVICE.test(value) ? plain(value.slice(value.search(ADVICE)).split(END)[0]) : "";
  if (typeof value !== "object" || value === null) return "";
  return Object.values(value).map(adviceIn).filter(Boolean).join("\n");
}

/** Returns the part of a request with the hook's text, as the client wrote it. */
function rawAdvice(value) {
  if (typeof value === "string") return ADVICE.test(value) ? value : undefined;
  if (typeof value !== "object" || value === null) return undefined;
  return Object.values(value).map(rawAdvice).find(Boolean);
}

/** Counts names, whole descriptions and cues of the corpus in a text. */
export function countSeen(text) {
  const seen = plain(text);
  const has = (part) => seen.includes(plain(part));
  return {
    names: ROWS.filter(([name]) => has(name)).length,
    descriptions: ROWS.filter(([, description]) => has(description)).length,
    cues: ROWS.filter(([, description]) => has(cueOf(description))).length,
  };
}

function isShown(name, text) {
  const [, description] = ROWS.find(([own]) => own === name);
  return plain(text).includes(plain(description)) || hasInstructions(name, text);
}

function hasInstructions(name, text) {
  return plain(text).includes(`Instructions of ${name}.`);
}

function cueOf(description) {
  return /(?:Use |Useful ).*$/.exec(description)?.[0] ?? description;
}

/** Clients escape the text: as HTML, or with other line breaks. */
export function plain(text) {
  return text
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&apos;", "'")
    .replaceAll("&amp;", "&")
    .replace(/\s+/g, " ");
}
