/** What a command line asks for. */
export interface SandboxArguments {
  command: string;
  values: Record<string, string>;
  scopes: string[];
  flags: Set<string>;
}

interface OptionSpec {
  short?: string;
  /** What its value is called; none where it has none. */
  value?: string;
  isMany?: true;
  says: string;
}

interface CommandSpec {
  says: string;
  takes: readonly string[];
  needs: readonly string[];
}

/**
 * How `skillet-sb` is spelled: a part of that program, whose text is taken as it is (`program`). Contract: `read` throws a `Usage` over
 * what it does not understand.
 */
export function createArgumentParser(
  name: string,
  version: string,
  Usage: new (message: string) => Error,
  nearest: (word: string, candidates: readonly string[]) => string | undefined,
) {
  const OPTIONS: Record<string, OptionSpec> = {
    capability: { short: "c", value: "ID", says: "which capability: notes.notes" },
    operation: { short: "o", value: "OP", says: "which of its operations" },
    input: {
      value: "JSON",
      says: "what the operation takes, as JSON; - is standard input, @FILE a file; {} when left out",
    },
    account: { value: "A", says: "whose, where several are signed in" },
    key: { value: "K", says: "a word of yours: with the same one again, nothing is done a second time" },
    approval: { value: "ID", says: "the approval that an earlier call named" },
    scope: { value: "S", isMany: true, says: "what the sign-in has to be good for; can be given again" },
    flow: { value: "F", says: "the sign-in, as `auth begin` named it" },
    callback: { value: "TEXT", says: "what the user brought back; - is standard input" },
    wait: { value: "SECONDS", says: "asks again until it is done, so long at most" },
    json: { says: 'prints the result as one line of JSON, or {"ok":false,"error":{…}}' },
    help: { short: "h", says: "prints this" },
    version: { says: "prints the version" },
  };
  const COMMANDS: Record<string, CommandSpec> = {
    "capability list": { says: "what this skill may use, and what it takes", takes: ["capability", "json"], needs: [] },
    "capability invoke": {
      says: "has an operation of a capability done",
      takes: ["capability", "operation", "input", "account", "key", "approval", "json"],
      needs: ["capability", "operation"],
    },
    "capability auth begin": {
      says: "begins a sign-in, and says what the user has to do",
      takes: ["capability", "scope", "json"],
      needs: ["capability"],
    },
    "capability auth complete": {
      says: "ends a sign-in with what the user brought back",
      takes: ["flow", "callback", "json"],
      needs: ["flow", "callback"],
    },
    "capability auth poll": {
      says: "whether a sign-in is done that ends elsewhere",
      takes: ["flow", "wait", "json"],
      needs: ["flow"],
    },
  };
  /** Words of other programs for the same. */
  const MEANT: Record<string, string> = {
    ...{ args: "input", arguments: "input", data: "input", body: "input", params: "input", payload: "input" },
    ...{ id: "capability", op: "operation", action: "operation", method: "operation", i: "input", code: "callback" },
    ...{ timeout: "wait", user: "account", a: "account" },
  };
  const CALLS = ["call", "run", "exec", "use", "do"];

  return { read, helpFor };

  /** What is to be asked, or a text that answers already. */
  function read(argv: readonly string[]): SandboxArguments | string {
    const { words, values, scopes, flags } = taken(argv);
    if (flags.has("version")) return `${name} ${version}\n`;
    if (flags.has("help")) return help(words);
    if (words.length === 0) throw new Usage(`what is to be done is missing: ${Object.keys(COMMANDS).join(", ")}`);
    const command = commandOf(words);
    const { takes, needs } = COMMANDS[command] as CommandSpec;
    for (const option of [...Object.keys(values), ...flags, ...(scopes.length > 0 ? ["scope"] : [])]) {
      if (!takes.includes(option)) throw new Usage(`\`${command}\` takes no --${option}: ${usage(command)}`);
    }
    for (const option of needs) {
      if (!values[option]) throw new Usage(`${spelled(option)} is missing: ${usage(command)}`);
    }
    return { command, values, scopes, flags };
  }

  /** What the words of a command line are, in any order. */
  function taken(argv: readonly string[]) {
    const words: string[] = [];
    const values: Record<string, string> = {};
    const scopes: string[] = [];
    const flags = new Set<string>();
    for (let index = 0; index < argv.length; index++) {
      const word = argv[index] ?? "";
      const [, dashes = "", said = "", , inline] = /^(--?)([^=]+)(=(.*))?$/s.exec(word) ?? [];
      if (dashes === "") {
        words.push(word);
        continue;
      }
      const option = dashes === "--" ? said : Object.keys(OPTIONS).find((key) => OPTIONS[key]?.short === said);
      const known = option !== undefined && Object.hasOwn(OPTIONS, option) ? OPTIONS[option] : undefined;
      if (option === undefined || !known) throw unknownOption(`${dashes}${said}`, said, words);
      if (known.value === undefined) {
        if (inline !== undefined) throw new Usage(`--${option} takes no value`);
        flags.add(option);
        continue;
      }
      const value = inline ?? argv[++index];
      if (value === undefined || (inline === undefined && /^--[a-z]/.test(value)))
        throw new Usage(`${spelled(option)} has no value`);
      if (known.isMany) scopes.push(value);
      else if (values[option] !== undefined) throw new Usage(`--${option} is given twice`);
      else values[option] = value;
    }
    return { words, values, scopes, flags };
  }

  function unknownOption(option: string, said: string, words: readonly string[]): Error {
    const command = Object.keys(COMMANDS).find((key) => words.join(" ").startsWith(key));
    const takes = command === undefined ? Object.keys(OPTIONS) : [...(COMMANDS[command]?.takes ?? []), "help"];
    const meant = MEANT[said] ?? takes.find((key) => said.length > 1 && key.startsWith(said)) ?? nearest(said, takes);
    const hint =
      meant === undefined ? `there are ${takes.map((key) => `--${key}`).join(", ")}` : `is ${spelled(meant)} meant?`;
    return new Usage(`there is no ${option}: ${hint}`);
  }

  function commandOf(words: readonly string[]): string {
    const said = words.join(" ");
    const command = Object.keys(COMMANDS).find((key) => said === key || said.startsWith(`${key} `));
    if (command === said) return command;
    if (command !== undefined)
      throw new Usage(`"${said.slice(command.length + 1)}" is not understood: ${usage(command)}`);
    const last = words.at(-1) ?? "";
    const meant = CALLS.includes(last)
      ? "capability invoke"
      : (Object.keys(COMMANDS).find((key) => key.endsWith(` ${said}`) || key.endsWith(` ${last}`)) ??
        nearest(said, Object.keys(COMMANDS)));
    const hint =
      meant === undefined ? `there are ${Object.keys(COMMANDS).join(", ")}` : `is \`${name} ${meant}\` meant?`;
    throw new Usage(`there is no \`${said}\`: ${hint}`);
  }

  function spelled(option: string): string {
    const { short, value } = OPTIONS[option] ?? {};
    return `${short ? `-${short}, ` : ""}--${option}${value ? ` ${value}` : ""}`;
  }

  function usage(command: string): string {
    const { takes, needs } = COMMANDS[command] as CommandSpec;
    const parts = takes.map((option) => {
      const { short, value, isMany } = OPTIONS[option] as OptionSpec;
      const text = `${short ? `-${short}` : `--${option}`}${value ? ` ${value}` : ""}`;
      return needs.includes(option) ? text : `[${text}${isMany ? " …" : ""}]`;
    });
    return [name, command, ...parts].join(" ");
  }

  function help(words: readonly string[]): string {
    const said = words.join(" ");
    const commands = Object.keys(COMMANDS).filter((key) => `${key} `.startsWith(said === "" ? "" : `${said} `));
    const shown = commands.length > 0 ? commands : Object.keys(COMMANDS);
    const options = [...new Set(shown.flatMap((key) => COMMANDS[key]?.takes ?? [])), "help"];
    return [
      ...shown.map((key) => `${usage(key)}\n    ${COMMANDS[key]?.says}`),
      "",
      ...options.map((option) => `  ${spelled(option).padEnd(22)} ${OPTIONS[option]?.says}`),
      "",
      "exit codes: 0 done, 1 refused or failed, 2 wrong usage, 5 waits for the user's approval",
      "",
    ].join("\n");
  }

  /** The part of what was said that there is help for. */
  function helpFor(argv: readonly string[]): string {
    const said = argv.slice(0, 3).join(" ");
    const command = Object.keys(COMMANDS).find(
      (key) => `${said} `.startsWith(`${key} `) || argv.slice(0, 2).join(" ") === key,
    );
    return command === undefined ? "" : `${command} `;
  }
}
