import { examples } from "../examples.ts";
import type { Entry } from "../program.ts";

/** `skillet sign`. */
export const SIGN: Entry = {
  define: (command) =>
    command
      .description("sign skills of yours, so that others know who made them; alone: show your public key")
      .argument("[path...]", "skill folders, or names")
      .option("--new-key", "make your key, ~/.skillet/signing-key.pem; one that is there is never replaced")
      .option("--key <file>", "another key: a private Ed25519 key in PEM that nobody else can read")
      .addHelpText(
        "after",
        "\nA key's passphrase is asked for, or read from $SKILLET_SIGNING_PASSPHRASE.\nWhat is changed in a skill breaks its signature: sign it again.",
      )
      .addHelpText(
        "after",
        examples("skillet sign --new-key", "skillet sign skills/deploy", "skillet sign deploy --key ~/keys/team.pem"),
      ),
  load: async () => (await import("../commands/sign.ts")).sign,
};

/** `skillet signers` and what stands below it. */
export const SIGNERS: Entry = {
  define: (command) =>
    command
      .description("show whose signatures on skills count for you")
      .addHelpText(
        "after",
        examples("skillet signers", "skillet signers add alice KEY", "skillet signers remove alice"),
      ),
  load: async () => (await import("../commands/signers.ts")).listSigners,
  commands: {
    add: {
      define: (command) =>
        command
          .description("let somebody's signatures count; compare the fingerprint with what they tell you")
          .argument("<name>", "what you call them")
          .argument("<key...>", "their public key, as `skillet sign` shows it to them; or a file that holds it")
          .usage("[options] <name> <key>")
          .allowUnknownOption() // What begins with dashes may be a key that was pasted, and is not to be repeated.
          .addHelpText(
            "after",
            examples("skillet signers add alice KEY", "skillet signers add alice alice-public.pem"),
          ),
      load: async () => (await import("../commands/signers.ts")).addSigner,
    },
    remove: {
      define: (command) =>
        command
          .description("let somebody's signatures count no longer")
          .argument("<name>", "what you call them")
          .addHelpText("after", examples("skillet signers remove alice")),
      load: async () => (await import("../commands/signers.ts")).removeSigner,
    },
  },
};
