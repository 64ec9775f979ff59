import type { ErrorCode } from "../codes/codes.ts";
import { SkillError } from "../shared/error.ts";
import { reveal } from "../shared/hidden.ts";
import { oneLine } from "../shared/text.ts";
import { shown } from "./refusal.ts";

/** What was asked for when git failed. */
export interface Asked {
  url: string;
  /** The branch, tag or commit; the default branch when left out. */
  ref?: string | undefined;
}

interface Failure {
  said: RegExp;
  code: ErrorCode;
  message(asked: Asked): string;
  fix: string;
}

const NOT_THERE =
  "check the address; for a private repository sign git in (a credential helper, `gh auth setup-git`), or use its ssh address";

/** What git says, and what is to be said of it. The first that fits counts. */
const FAILURES: readonly Failure[] = [
  {
    said: /ssh: (?:command )?not found|cannot run .*ssh/i,
    code: "git-missing",
    message: ({ url }) => `ssh is needed for ${shown(url)}, and is not on this machine`,
    fix: "install it (`sudo apt-get install openssh-client`), or use the repository's https address",
  },
  {
    said: /could not read (?:Username|Password)|Authentication failed|Access denied|returned error: 40[13]|Permission denied \(/i,
    code: "git-sign-in",
    message: ({ url }) => `${shown(url)} is not there, or not for everybody, and git has no sign-in for it`,
    fix: NOT_THERE,
  },
  {
    said: /returned error: 30[1278]/i,
    code: "download-redirect",
    message: ({ url }) => `${shown(url)} leads on to another address`,
    fix: "give the address that it leads to at last",
  },
  {
    said: /Host key verification failed/i,
    code: "git-host-key",
    message: ({ url }) => `The host of ${shown(url)} is not known to ssh, or is another one than before`,
    fix: "connect to it once by hand (`ssh -T git@HOST`) and compare its fingerprint with what it publishes",
  },
  {
    said: /couldn't find remote ref HEAD|Remote HEAD refers to nonexistent ref/i,
    code: "git-empty",
    message: ({ url }) => `${shown(url)} has no default branch, or nothing in it`,
    fix: "name a branch: ADDRESS#branch",
  },
  {
    said: /couldn't find remote ref|no such remote ref/i,
    code: "git-ref-missing",
    message: ({ url, ref = "" }) => `${shown(url)} has no branch and no tag ${shown(ref)}`,
    fix: "give a branch or a tag, or a commit with all of its 40 digits",
  },
  {
    said: /dubious ownership/i,
    code: "git-owner",
    message: ({ url }) => `${shown(url)} belongs to another user, whose settings git does not follow`,
    fix: "add it as a folder, by its path",
  },
  {
    said: /mismatched algorithms|object format|hash algorithm/i,
    code: "git-object-format",
    message: ({ url }) => `${shown(url)} names its commits by SHA-256, which is not fetched`,
    fix: "add it as a folder, or as an archive",
  },
  {
    said: /certificate|SSL|TLS/,
    code: "git-certificate",
    message: ({ url }) => `The host of ${shown(url)} has no certificate that git trusts`,
    fix: "check the address; git's own setting http.sslCAInfo names the certificates of a company",
  },
  {
    said: /returned error: 404|does not appear to be a git repository|repository .*(?:not found|does not exist)|not found|no such file/i,
    code: "git-not-found",
    message: ({ url }) => `There is no repository at ${shown(url)}`,
    fix: "check the address; a folder that is none is added by its path",
  },
  {
    said: /Could not resolve|Failed to connect|Connection (?:refused|reset|timed out|closed)|unable to access|network is unreachable/i,
    code: "git-unreachable",
    message: ({ url }) => `The host of ${shown(url)} cannot be reached`,
    fix: "check the address and the network, and try again",
  },
];

/** What git said, as an error with one sentence to read and one thing to try. */
export function gitFailure(stderr: string, asked: Asked): SkillError {
  const known = FAILURES.find(({ said }) => said.test(stderr));
  if (known) return new SkillError(known.code, { message: known.message(asked), fix: known.fix });
  return new SkillError("git-failed", {
    message: `git cannot fetch ${shown(asked.url)}: ${lastWords(stderr)}`,
    fix: "`git ls-remote` with the same address says whether git can reach it by itself",
  });
}

export function commitMissing(commit: string, { url }: Asked): SkillError {
  return new SkillError("git-commit-missing", {
    message: `${shown(url)} has no commit ${commit}`,
    fix: "it may have been taken back there: look at what is there now before you add it again",
  });
}

const LONGEST_WORDS = 300;

/** Its last line that says what is wrong, without what signs somebody in. */
function lastWords(stderr: string): string {
  const lines = stderr
    .replace(/\/\/[^/@\s]*@/g, "//")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const last = lines.findLast((line) => /^(?:fatal|error|remote|ssh):/i.test(line)) ?? lines.at(-1);
  return last === undefined ? "it gave no reason" : oneLine(reveal(last), LONGEST_WORDS);
}
