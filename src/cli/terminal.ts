import { INTERRUPTED_LINE, type InterruptedLine, type LineCompleter, type TerminalDialogue } from "./output.ts";

type DialogueLine = string | InterruptedLine | undefined;

/**
 * Opens a dialogue at the terminal of this process. One readline interface serves all of it, so that no typeahead is lost. It receives keys
 * only while a line is awaited, so that it writes nothing into an answer.
 *
 * Contract: the terminal state is always restored. A signal that ends the program closes the dialogue.
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
    // Interrupts the running work, and discards the input queued after it.
    if (!text.includes(CTRL_C)) return;
    const isHeard = isHeardByOthers();
    state.typed = isHeard ? "" : CTRL_C;
    if (isHeard) process.kill(process.pid, "SIGINT");
  };
  const isHeardByOthers = () => process.listenerCount("SIGINT") > 1;
  // A signal sent by another program means the same as the key.
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
  // Without the terminal nothing can be read or printed. Deferred, because closing raises the same error.
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

// A terminal signals the whole foreground group, and a parent may forward it: only a later signal counts as a second one.
export const REPEAT_INTERRUPT_MS = 300;

/** These end the program; Ctrl-C only interrupts the current work. */
const END_SIGNALS = ["SIGTERM", "SIGHUP", "SIGQUIT"] as const;
export type EndSignal = (typeof END_SIGNALS)[number];

const CTRL_C = "\u0003";
// Makes terminals mark the start and end of a paste.
const ENABLE_PASTE = "\u001b[?2004h";
const DISABLE_PASTE = "\u001b[?2004l";
const PASTE_START = "\u001b[200~";
const PASTE_END = "\u001b[201~";

/** Splits off the keys up to the end of a line, or a complete paste. Empty while a paste is incomplete. */
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

/** Returns an incomplete paste marker at the end of the line. */
function findPartialPasteStart(line: string): string {
  return /\u001b\[2(?:00?)?$/.exec(line)?.[0] ?? "";
}

const LINE_BREAKS = /\r\n?|[\u2028\u2029]/g;
// Control characters are not part of the message.
const CONTROL_CHARACTERS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** Shows each pasted multi-line text as a placeholder in the typed line, and restores it when the line is read. */
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
