import { examples } from "../examples.ts";
import type { Entry } from "../program.ts";
import { SINCE } from "../since.ts";

/** `skillet audit` and what stands below it. */
export const AUDIT: Entry = {
  define: (command) =>
    command
      .description("show what skills asked of capabilities, who signed in where, and what came of it; the newest last")
      .argument("[command]")
      .option("--skill <skill>", "only what this skill asked")
      .option("--run <id>", "only what was asked in this run: its id, the beginning or end of it, or `last`")
      .option("--capability <id>", "only this capability, operation or namespace: notes.notes, notes.notes.add, notes")
      .option("--outcome <code>", "only what ended so: ok, or the code of what refused it")
      .option("--since <time>", `only what was asked since then: ${SINCE}`)
      .option("-n, --limit <number>", "at most so many lines, the newest; 50 when left out")
      .usage("[options]")
      .addHelpText(
        "after",
        examples(
          "skillet audit",
          "skillet audit --skill note-taker --since 2d",
          "skillet audit --capability notes.notes.add --outcome ok",
          "skillet audit verify",
        ),
      ),
  load: async () => (await import("../commands/audit.ts")).audit,
  commands: {
    verify: {
      define: (command) =>
        command
          .description("say whether every line of the log is as it was written, and none is missing")
          .addHelpText("after", examples("skillet audit verify", "skillet audit verify --json")),
      load: async () => (await import("../commands/audit.ts")).verifyLog,
    },
  },
};

const NAMESPACE = "what the provider serves: the beginning of its capabilities, as in github";

/** `skillet auth` and what stands below it. */
export const AUTH: Entry = {
  define: (command) =>
    command
      .description("sign in to the systems that capabilities reach, and out of them")
      .addHelpText("after", examples("skillet auth list", "skillet auth login github")),
  commands: {
    list: {
      define: (command) =>
        command
          .description("show who is signed in where, for how long, and where the key of the vault is from; no secret")
          .addHelpText("after", examples("skillet auth list", "skillet auth list --json")),
      load: async () => (await import("../commands/auth.ts")).listSignedIn,
    },
    login: {
      define: (command) =>
        command
          .description("sign in: says what to do, and keeps what you are let in with in the vault")
          .argument("<namespace>", NAMESPACE)
          .option("-s, --scope <scope...>", "what the sign-in is to be good for; what the provider needs when left out")
          .addHelpText(
            "after",
            "\nA token is asked for without being shown, or piped in.\nIt is never an argument: others could see it.",
          )
          .addHelpText(
            "after",
            examples("skillet auth login github", "skillet auth login github < token.txt", "skillet auth login gog"),
          ),
      load: async () => (await import("../commands/auth-login.ts")).login,
    },
    revoke: {
      define: (command) =>
        command
          .description("remove what was kept of a sign-in from the vault")
          .argument("<namespace>", NAMESPACE)
          .argument("[account]", "whose; all of them when left out")
          .option("-y, --yes", "do not ask; needed where there is no terminal")
          .addHelpText(
            "after",
            examples("skillet auth revoke github", "skillet auth revoke gog ada@example.com --yes"),
          ),
      load: async () => (await import("../commands/auth.ts")).revoke,
    },
    begin: {
      define: (command) =>
        command
          .description("for scripts: begin a sign-in, and print what to do and its flow")
          .argument("<namespace>", NAMESPACE)
          .option("-s, --scope <scope...>", "what the sign-in is to be good for")
          .addHelpText("after", examples("skillet auth begin github --json | jq -r .flow")),
      load: async () => (await import("../commands/auth-step.ts")).begin,
    },
    complete: {
      define: (command) =>
        command
          .description("for scripts: complete a sign-in with what is piped in: the address that it led to, a token")
          .argument("<flow>", "as begin printed it")
          .addHelpText("after", examples("skillet auth complete flow_3f2a… < token.txt")),
      load: async () => (await import("../commands/auth-step.ts")).complete,
    },
    poll: {
      define: (command) =>
        command
          .description(
            "for scripts: ask whether a sign-in that ends elsewhere has ended; exits with 5 while it has not",
          )
          .argument("<flow>", "as begin printed it")
          .addHelpText("after", examples("skillet auth poll flow_3f2a…")),
      load: async () => (await import("../commands/auth-step.ts")).poll,
    },
  },
};

/** `skillet capability` and what stands below it. */
export const CAPABILITY: Entry = {
  define: (command) =>
    command
      .description("show the systems that skills can ask, and say which skill may")
      .addHelpText("after", examples("skillet capability list", "skillet capability grant note-taker notes.notes")),
  commands: {
    list: {
      define: (command) =>
        command
          .description("show who serves capabilities, whether they are ready, what they do, and which skills have them")
          .argument("[namespace]", "only this one")
          .addHelpText("after", examples("skillet capability list", "skillet capability list notes --json")),
      load: async () => (await import("../commands/capability.ts")).listCapabilities,
    },
    check: {
      define: (command) =>
        command
          .description("try what every provider has to hold to, one line each; changes nothing unless told to")
          .argument("<namespace>", NAMESPACE)
          .option("-i, --inputs <file>", "JSON: what operations are tried with, by notes.notes.get")
          .option("--changes", "also do what changes something, with the inputs of that file, each twice with one key")
          .addHelpText(
            "after",
            examples(
              "skillet capability check notes",
              "skillet capability check notes --inputs inputs.json",
              "skillet capability check notes --inputs inputs.json --changes",
            ),
          ),
      load: async () => (await import("../commands/capability-check.ts")).checkCapability,
    },
    grant: {
      define: (command) =>
        command
          .description("give a skill capabilities that it declares: adds them to capabilities of [skills.NAME]")
          .argument("<skill>", "the skill")
          .argument("<capability...>", "what it is given, as in notes.notes")
          .option("-y, --yes", "do not ask; needed where there is no terminal")
          .addHelpText("after", examples("skillet capability grant note-taker notes.notes")),
      load: async () => (await import("../commands/capability-grant.ts")).grant,
    },
    ungrant: {
      define: (command) =>
        command
          .description("take capabilities from a skill again")
          .argument("<skill>", "the skill, or what the configuration calls it when it is gone")
          .argument("<capability...>", "what is taken from it")
          .option("-y, --yes", "do not ask when another copy of this name loses it")
          .addHelpText("after", examples("skillet capability ungrant note-taker notes.notes")),
      load: async () => (await import("../commands/capability-grant.ts")).ungrant,
    },
  },
};
