import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { substituteInCommand } from "../../src/catalog/skill-content.ts";
import { temporaryFolder } from "../support/folder.ts";
import { IS_LONG } from "../support/sample-steps.ts";

const run = (shell: string, command: string, cwd = "/") =>
  execFileSync(shell, ["-c", command], { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });

describe("arguments in a command", () => {
  it.each([
    ["plain words stay unchanged", "printf '[%s]' $1 \"$2\" '$ARGUMENTS'", "a b", "[a][b][a b]"],
    ["bare, they are split into words", "printf '[%s]' $ARGUMENTS", "a 'b c' d", "[a][b c][d]"],
    ["none are no words", "printf '[%s]' x $ARGUMENTS", "", "[x]"],
    ["in double quotes they are text", "printf '[%s]' \"say $1!\"", "'b  c'", "[say b  c!]"],
    [
      "in single quotes all of them are text",
      "printf '[%s]' '{\"q\": \"$ARGUMENTS\"}'",
      "it's $(id)",
      '[{"q": "it\'s $(id)"}]',
    ],
    ["$1 in single quotes is the program's", "echo x y | awk '{print $2}'", "a b", "y\n"],
    ["in a here document they are text", "cat <<END\nto: $1 it's\nEND\necho $1", "'$(id)'", "to: $(id) it's\n$(id)\n"],
    ["in a quoted here document nothing is inserted", "cat <<'END'\n$1\nEND\necho $1", "x", "$1\nx\n"],
    ["an apostrophe in a comment does not count", '# don\'t\necho "$1"', "'a  b'", "a  b\n"],
  ])("%s", (_, command, given, printed) => {
    for (const shell of ["sh", "bash"])
      expect(run(shell, substituteInCommand(command, { arguments: given }))).toBe(printed);
  });

  const PLACES = [
    "echo $1",
    'echo "$1"',
    "echo '$ARGUMENTS'",
    "echo $ARGUMENTS",
    "echo $(echo $1)",
    'echo "$(echo "$1")"',
    "echo `echo $1`",
    "echo \"'$1'\"",
    "echo '\"'$1'\"'",
    "echo it\\'s $1",
    "cat <<END\n$1 ' \" `echo x`\nEND\necho $1",
    "cat <<'A' <<B\n$1\nA\n$1\nB\necho '$ARGUMENTS[0]'",
    "# it's\necho $1 # \"\necho '$1' $1",
    'f() { echo "$1"; }; f $1',
    "case $1 in x) echo $1;; esac",
    "echo ${x:-$1}",
    "x='$ARGUMENTS'; echo \"$x\"",
  ];

  it("are never shell code, at any place and with any content", () => {
    const folder = temporaryFolder();
    const piece = fc.constantFrom(
      "'",
      '"',
      "`",
      "$(",
      ")",
      ";",
      "|",
      "&",
      "\n",
      "\\",
      "$",
      "{",
      "}",
      "touch pwned",
      " ",
      "a",
      "<<END",
      "END",
      "#",
      "''",
      '""',
      "*",
    );
    fc.assert(
      fc.property(fc.constantFrom(...PLACES), fc.array(piece, { maxLength: 8 }), (command, pieces) => {
        const text = pieces.join("");
        const given = `'${text.replaceAll("'", "")}' ${text}`;
        try {
          run("bash", substituteInCommand(command, { arguments: given }), folder);
        } catch {
          // A command may fail for its input.
        }
        return !existsSync(join(folder, "pwned"));
      }),
      {
        numRuns: IS_LONG ? 150 : 50,
        examples: PLACES.map((place) => [
          place,
          ["$(", "touch pwned", ")", "`", "touch pwned", "`", ";", "touch pwned", "\n", "touch pwned"],
        ]),
      },
    );
  });
});
