/**
 * The simple commands of a command line, each as its words without quotes. Nothing when that cannot be judged, which is wherever a
 * command could hide: it is small so that nobody has to wonder what it misses.
 */
export function simpleCommands(line: string): string[][] | undefined {
  if (line.length > LONGEST || HIDING.test(line) || !line.isWellFormed()) return undefined;
  const state: State = { commands: [[]], word: undefined, isOdd: false, depth: 0 };
  for (let at = 0; at < line.length; ) {
    const found = TOKENS.find(({ pattern }) => {
      pattern.lastIndex = at;
      return pattern.test(line);
    });
    const end = found?.pattern.lastIndex ?? 0;
    if (!found?.take(state, line.slice(at, end))) return undefined;
    at = end;
  }
  endWord(state);
  const commands = state.commands.filter((words) => words.length > 0);
  return state.depth === 0 && !state.isOdd && commands.every(isPlain) ? commands : undefined;
}

const LONGEST = 32 * 1024;

// Also within quotes: builtins such as `printf -v` and `test -v` look into their arguments for substitutions once more.
// A backslash at the end of a line joins what stands around it. Other control characters mean something of their own to some shells.
const HIDING = /[`\u0000-\u0008\u000b-\u001f\u007f]|\$[([]|\$\{(?![A-Za-z_]\w*\})|[<>]\(|\\\n/;

/** Words that begin something else than a simple command. */
const RESERVED = new Set(
  "! [[ ]] { } case coproc do done elif else esac fi for function if in select then time until while".split(" "),
);

/** No variable, no pattern, no assignment. */
const NAME = /^(?:\[|[A-Za-z0-9_./+@%:,-]+)$/;

function isPlain([name = ""]: readonly string[]): boolean {
  return NAME.test(name) && !RESERVED.has(name);
}

interface State {
  commands: string[][];
  /** The word that is being read. */
  word: string | undefined;
  /** Whether a command's name was spelled with quotes or backslashes: such a one is no alias, and nobody writes it so. */
  isOdd: boolean;
  /** Of parentheses. */
  depth: number;
}

/** The first that fits decides. Contract of `take`: false when it cannot be judged. */
const TOKENS: readonly { pattern: RegExp; take(state: State, text: string): boolean }[] = [
  {
    // To nowhere, or from one descriptor to another.
    pattern: /(?:(?:\d*(?:>>?|<)|&>>?)[ \t]*\/dev\/null|\d*[<>]&(?:\d+|-))(?![^\s;&|)])/y,
    take: (state, text) => (/^\d/.test(text) && state.word !== undefined ? false : endWord(state)),
  },
  { pattern: /&&|\|\||\|&|[;&|\n]/y, take: endCommand },
  { pattern: /[ \t]+/y, take: endWord },
  { pattern: /'[^']*'/y, take: (state, text) => quoted(state, text.slice(1, -1)) },
  {
    pattern: /"(?:[^"\\]|\\[\s\S])*"/y,
    take: (state, text) => quoted(state, text.slice(1, -1).replace(/\\(["\\$])/g, "$1")),
  },
  { pattern: /\\[\s\S]/y, take: (state, text) => quoted(state, text.slice(1)) },
  { pattern: /\((?!\()/y, take: openParenthesis },
  { pattern: /\)/y, take: closeParenthesis },
  // What follows a `#` is no code, and its quotes are none; within a word it is a character.
  { pattern: /#/y, take: (state, text) => state.word !== undefined && plain(state, text) },
  { pattern: /\$(?!['"])/y, take: plain },
  { pattern: /[^\s;&|<>()'"\\#$]+/y, take: plain },
];

function plain(state: State, text: string): boolean {
  state.word = (state.word ?? "") + text;
  return true;
}

function quoted(state: State, text: string): boolean {
  state.isOdd ||= state.commands.at(-1)?.length === 0;
  return plain(state, text);
}

function endWord(state: State): boolean {
  if (state.word !== undefined) state.commands.at(-1)?.push(state.word);
  state.word = undefined;
  return true;
}

function endCommand(state: State): boolean {
  endWord(state);
  return state.commands.push([]) > 0;
}

/** Only where a command begins: else it is a function, a list of values or a pattern. */
function openParenthesis(state: State): boolean {
  state.depth++;
  return state.word === undefined && state.commands.at(-1)?.length === 0;
}

function closeParenthesis(state: State): boolean {
  state.depth--;
  return endCommand(state) && state.depth >= 0;
}
