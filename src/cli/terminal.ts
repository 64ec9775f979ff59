import { INTERRUPTED_LINE, type InterruptedLine, type LineCompleter, type TerminalDialogue } from "./output.ts";

type DialogueLine = string | InterruptedLine | undefined;

/**
 * A dialogue at the terminal of this process. One interface for all of it, or what was typed ahead would be lost with each; and it is given
 * keys only while a line is waited for, so that it writes nothing between the lines of an answer.
 *
 * Contract: however it ends, the terminal is left as it was. A signal that ends the program closes it, so that no line comes any more.
 */
export function openTerminalDialogue(complete: LineCompleter, onEnding: (signal: EndSignal) => void): TerminalDialogue {
  const { createInterface } = process.getBuiltinModule("node:readline");
  const { Readable } = process.getBuiltinModule("node:stream");
  const { StringDecoder } = process.getBuiltinModule("node:string_decoder");
  const { stdin, stderr } = process;
  const state = {
    typed: "",
    isAsking: false,
    isClosed: false,
    onAnswer: undefined as ((answer: DialogueLine) => void) | undefined,
  };
  const pastes = createPasteStore();
  const keys = Object.assign(new Readable({ read() {} }), { setRawMode: (isRaw: boolean) => stdin.setRawMode(isRaw) });
  const lines = createInterface({ input: keys, output: stderr, terminal: true, completer: createCompleter(complete) });
  const answer = (given: DialogueLine) => {
    const { onAnswer } = state;
    state.onAnswer = undefined;
    onAnswer?.(given);
  };
  lines.on("line", (line) => answer(pastes.unfold(line)));
  const interrupt = () => {
    for (const name of ["e", "u"]) lines.write(null, { ctrl: true, name });
    stderr.write("^C\n");
    answer(INTERRUPTED_LINE);
  };
  lines.on("SIGINT", interrupt);
  lines.on("history", (history) => state.isAsking && history.shift());
  lines.once("close", () => {
    if (state.onAnswer) stderr.write("\n");
    close();
    answer(undefined);
  });
  const play = () => {
    while (state.onAnswer && state.typed !== "") {
      const { keys: next, paste, rest } = splitTyped(state.typed);
      if (next === "" && paste === undefined) return;
      state.typed = rest;
      if (paste === undefined) keys.emit("data", next);
      else lines.write(pastes.fold(paste));
    }
  };
  const decoder = new StringDecoder("utf8");
  const onData = (bytes: Buffer) => {
    const text = decoder.write(bytes);
    state.typed += text;
    if (state.onAnswer) return play();
    // What goes on is stopped as anywhere else, and what was to be done after it is not.
    if (!text.includes(CTRL_C)) return;
    const isHeard = isHeardByOthers();
    state.typed = isHeard ? "" : CTRL_C;
    if (isHeard) process.kill(process.pid, "SIGINT");
  };
  const isHeardByOthers = () => process.listenerCount("SIGINT") > 1;
  // Sent by another program, it means what the key means.
  const onInterrupt = () => {
    if (state.onAnswer) interrupt();
    else if (!isHeardByOthers()) state.typed = CTRL_C;
  };
  const onEnd = () => lines.close();
  const onSignal = (signal: EndSignal) => {
    onEnding(signal);
    lines.close();
  };
  const close = () => {
    if (state.isClosed) return;
    state.isClosed = true;
    stderr.write(DISABLE_PASTE);
    stdin.off("data", onData).off("end", onEnd).pause();
    process.off("exit", close).off("SIGINT", onInterrupt);
    setTimeout(() => {
      for (const name of END_SIGNALS) process.off(name, onSignal);
    }, REPEAT_INTERRUPT_MS).unref();
    lines.close();
  };
  const wait = (prompt: string, isAsking: boolean) =>
    new Promise<DialogueLine>((resolve) => {
      if (state.isClosed) return resolve(undefined);
      state.isAsking = isAsking;
      state.onAnswer = resolve;
      lines.setPrompt(prompt);
      lines.prompt();
      play();
    });
  process.once("exit", close).on("SIGINT", onInterrupt);
  for (const name of END_SIGNALS) process.on(name, onSignal);
  // Where the terminal has gone, nothing can be read from it, nor said. Later, because closing meets the same error.
  stdin.on("error", () => setImmediate(onEnd));
  for (const stream of [stderr, process.stdout]) stream.on("error", () => {});
  stderr.write(ENABLE_PASTE);
  stdin.on("data", onData).on("end", onEnd).resume();
  return {
    read: (prompt) => wait(prompt, false),
    async ask(question, signal) {
      state.typed = "";
      if (signal?.aborted) return undefined;
      const end = () => {
        for (const name of ["e", "u"]) lines.write(null, { ctrl: true, name });
        stderr.write("\n");
        answer(undefined);
      };
      signal?.addEventListener("abort", end, { once: true });
      const given = await wait(question, true);
      signal?.removeEventListener("abort", end);
      if (given === INTERRUPTED_LINE && isHeardByOthers()) process.emit("SIGINT");
      return typeof given === "string" ? given : undefined;
    },
    close,
  };
}

// A terminal signals everybody in front of it, and who started us passes it on: only a later one is a second one.
export const REPEAT_INTERRUPT_MS = 300;

/** Ctrl-C stops what is being done; these end the program. */
const END_SIGNALS = ["SIGTERM", "SIGHUP", "SIGQUIT"] as const;
export type EndSignal = (typeof END_SIGNALS)[number];

const CTRL_C = "\u0003";
// Terminals then say where a paste begins and ends.
const ENABLE_PASTE = "\u001b[?2004h";
const DISABLE_PASTE = "\u001b[?2004l";
const PASTE_START = "\u001b[200~";
const PASTE_END = "\u001b[201~";

/** What was typed up to the end of a line, or a whole paste; nothing while one is still on its way. */
function splitTyped(typed: string): { keys: string; paste?: string; rest: string } {
  if (typed.startsWith(PASTE_START)) {
    const end = typed.indexOf(PASTE_END);
    if (end === -1) return { keys: "", rest: typed };
    return { keys: "", paste: typed.slice(PASTE_START.length, end), rest: typed.slice(end + PASTE_END.length) };
  }
  const [line = ""] = /^[^\r\n]*(?:\r\n?|\n)?/.exec(typed) ?? [];
  const paste = line.indexOf(PASTE_START);
  const end = paste === -1 ? line.length - findPartialPasteStart(line).length : paste;
  return { keys: line.slice(0, end), rest: typed.slice(end) };
}

/** The beginning of a mark, of which the rest is still to come. */
function findPartialPasteStart(line: string): string {
  return /\u001b\[2(?:00?)?$/.exec(line)?.[0] ?? "";
}

const LINE_BREAKS = /\r\n?|[\u2028\u2029]/g;
// What acts on a terminal is not what anybody meant to say.
const CONTROL_CHARACTERS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** Pasted texts of several lines stand as a word each in the line that is typed, and as themselves in what is read. */
function createPasteStore() {
  const texts = new Map<string, string>();
  return {
    fold(pasted: string): string {
      const text = pasted.replace(LINE_BREAKS, "\n").replace(CONTROL_CHARACTERS, "").replace(/\n+$/, "");
      if (!text.includes("\n")) return text;
      const name = `[paste ${texts.size + 1}: ${text.split("\n").length} lines]`;
      texts.set(name, text);
      return name;
    },
    unfold: (line: string): string => line.replace(/\[paste \d+: \d+ lines\]/g, (name) => texts.get(name) ?? name),
  };
}

function createCompleter(complete: LineCompleter): (line: string) => [string[], string] {
  return (line) => {
    const [word = ""] = /\S*$/.exec(line) ?? [];
    const fitting = complete(line).filter((candidate) => candidate.startsWith(word));
    return [fitting.length === 1 ? [`${fitting[0]} `] : fitting, word];
  };
}
