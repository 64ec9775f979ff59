import { isData } from "../../skill/data.ts";
import { judgePattern } from "../../skill/pattern.ts";
import type { Page } from "../page.ts";
import type { PageRule, SkillRule, Told } from "../rule.ts";

/** What a page must hold for these rules to see it. */
export const TOLD_WORDS = [
  ...[
    "requests.",
    "urllib",
    "urlopen",
    "httpx",
    "fetch(",
    "axios",
    "http.request",
    "https.request",
    "curl ",
    "wget ",
    "socket",
    "invoke-webrequest",
    "invoke-restmethod",
  ],
  ...[".env", "os.environ", "getenv", "env["],
];

const NETWORK =
  /\brequests\.(?:get|post|put|patch|delete|request|Session)\(|urlopen\(|\bhttpx\.\w|\bfetch\(\s?["'`$\w]|\baxios[.(]|\bhttps?\.(?:get|request)\(|(?:^|[\s;&|(`$])(?:curl|wget)\s{1,3}-?[\w"'$]|\bsocket\.(?:socket|create_connection)\(|Invoke-(?:WebRequest|RestMethod)\b/;
const OFFLINE =
  /\b(?:works? offline|runs? offline|fully offline|no network|without (?:a |the |any )?(?:network|internet)|nothing leaves|never leaves|no data leaves|local(?:ly)? only|no internet)\b/i;
const SECRET_NAME =
  /^[A-Z][A-Z0-9_]{2,60}_(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$|^(?:AWS_SECRET_ACCESS_KEY|GH_TOKEN|DATABASE_URL)$/;
const PROGRAMS =
  "ffmpeg docker kubectl aws gcloud az gh jq psql mysql terraform helm ssh scp rsync nmap openssl convert magick pandoc tesseract".split(
    " ",
  );
const COMMON = new Set(
  "a an the i it is in on of to and or for with you me my we do be can please help hi hello what how why when this that code file text use user ask question task work thing want need make".split(
    " ",
  ),
);

export const TOLD_RULES: readonly SkillRule[] = [
  {
    id: "broad-trigger",
    weight: "medium",
    title: "wants to be used for nearly everything",
    why: "A skill that is always chosen is read in every conversation, whatever that is about.",
    fix: "have it say what it is for",
    *find({ manifest: { triggers, paths }, description, lineOf }) {
      const pattern = triggers.patterns.find((text) => {
        const judged = judgePattern(text);
        return "isBroad" in judged && judged.isBroad;
      });
      if (pattern !== undefined) yield { line: lineOf("triggers"), seen: pattern };
      const word = [...triggers.keywords, ...triggers.verbs].find(
        (text) => text.trim().length < 2 || COMMON.has(text.trim().toLowerCase()),
      );
      if (word !== undefined) yield { line: lineOf("triggers"), seen: word };
      if (paths.some((glob) => /^(?:\*\*?(?:\/\*)?)$/.test(glob)))
        yield { line: lineOf("paths"), weight: "low", seen: "every file" };
      const claim = CLAIM.exec(description);
      if (claim) yield { line: lineOf("description"), seen: claim[0] };
    },
  },
  {
    id: "says-offline",
    weight: "medium",
    title: "says that nothing leaves the machine, and uses the network",
    why: "One of the two is not true.",
    fix: "look at what it sends, and to whom",
    *find({ description, manifest, pages }) {
      if (!OFFLINE.test(description) && !OFFLINE.test(manifest.compatibility ?? "")) return;
      const used = usesNetwork(pages);
      if (used) yield used;
    },
  },
  {
    id: "undeclared-network",
    weight: "low",
    title: "uses the network in its code, and declares no capability",
    why: "It can say where data goes, and then only that need be allowed.",
    fix: "look at the hosts; in a sandbox it has no network unless it is granted",
    *find({ manifest, pages }) {
      if (manifest.capabilities.length > 0) return;
      const used = usesNetwork(pages);
      if (used) yield used;
    },
  },
  {
    id: "undeclared-variable",
    weight: "low",
    title: "reads a key from the environment that it does not declare",
    why: "What is declared can be asked for and given to this skill alone.",
    fix: "add it under `env`",
    *find({ manifest, pages }) {
      const declared = new Set([...manifest.env, ...requiredBy(manifest.metadata, "env")]);
      for (const page of pages) {
        if (page.kind !== "code") continue;
        for (const [line, text] of page.lines.entries()) {
          const name = VARIABLE.exec(text.slice(0, 1000))?.slice(1).find(Boolean);
          if (name === undefined || declared.has(name) || !SECRET_NAME.test(name)) continue;
          declared.add(name);
          yield { file: page.path, line, seen: name };
        }
      }
    },
  },
  {
    id: "undeclared-program",
    weight: "low",
    title: "calls a program that is not among those it says it needs",
    why: "It says what it needs, and this is not there.",
    fix: "add it under `metadata.requires.bins`, or ask what it is for",
    *find({ manifest, pages }) {
      const declared = [...requiredBy(manifest.metadata, "bins"), ...requiredBy(manifest.metadata, "anyBins")];
      if (declared.length === 0) return;
      for (const program of PROGRAMS.filter((name) => !declared.includes(name) && !manifest.packages.includes(name))) {
        const call = new RegExp(`(?:^|[;&|(\`]\\s{0,3}|\\$\\()\\s{0,8}${program}\\s`);
        for (const page of pages) {
          const line =
            page.kind === "code"
              ? page.lines.findIndex((text, at) => page.placeAt(at) === "code" && call.test(text.slice(0, 400)))
              : -1;
          if (line !== -1) yield { file: page.path, line, seen: program };
        }
      }
    },
  },
  {
    id: "unused-capability",
    weight: "low",
    title: "declares a capability and says nothing of it",
    why: "What is granted and not needed is only good for somebody else.",
    fix: "take it out of `capabilities`, or do not grant it",
    *find({ manifest, mentions, lineOf }) {
      for (const name of manifest.capabilities) {
        if (![name, name.split(".").at(-1) ?? name].some(mentions)) yield { line: lineOf("capabilities"), seen: name };
      }
    },
  },
  {
    id: "broad-tools",
    weight: "low",
    title: "wants a shell without being asked about it",
    why: "Then nobody is asked about anything.",
    fix: "allow the commands it needs, such as `Bash(git:*)`",
    *find({ manifest, lineOf }) {
      const tool = manifest.tools.preapproved.find((name) => /^(?:\*|Bash|Bash\(\*\)|Shell|bash)$/.test(name));
      if (tool !== undefined) yield { line: lineOf("allowed-tools"), seen: tool };
    },
  },
  {
    id: "hooks",
    weight: "medium",
    title: "has commands run by the client itself",
    why: "Hooks run outside of any sandbox, and nobody is asked.",
    fix: "look at the commands",
    *find({ manifest, lineOf }) {
      const { hooks } = manifest.data;
      if (!isData(hooks) && !Array.isArray(hooks)) return;
      const text = JSON.stringify(hooks);
      const isFar = /\b(?:curl|wget|nc|iwr|https?:\/\/|base64|eval)\b/.test(text);
      yield {
        line: lineOf("hooks"),
        weight: isFar ? "medium" : "low",
        seen: isFar ? "a hook that uses the network" : "hooks",
      };
    },
  },
];

const CLAIM =
  /\b(?:use|invoke|load|call|run|activate) (?:this|it)(?: skill)? (?:first,? )?(?:always|for (?:everything|anything|(?:every|any|all) (?:requests?|tasks?|questions?|messages?|conversations?|prompts?))|(?:in|on|at|before) (?:every|any|all|each) (?:requests?|tasks?|messages?|conversations?|prompts?|answers?|responses?))(?=\s{0,2}(?:[.,;!]|$| (?:whatever|regardless|no matter)))|\b(?:every|any|all) (?:requests?|messages?|tasks?),? (?:whatever|no matter what|regardless of what) (?:the )?(?:user|it|they)\b/i;

// The brackets take one name, however it is read.
const VARIABLE =
  /process\.env(?:\.|\[\s?["'])([A-Z][A-Z0-9_]{2,60})|os\.(?:environ(?:\.get\(|\[)|getenv\()\s?["']([A-Z][A-Z0-9_]{2,60})|ENV\[["']([A-Z][A-Z0-9_]{2,60})|\$env:([A-Z][A-Z0-9_]{2,60})/;

function usesNetwork(pages: readonly Page[]): { file: string; line: number; seen: string } | undefined {
  for (const page of pages) {
    if (page.kind !== "code") continue;
    const line = page.lines.findIndex((text, at) => page.placeAt(at) === "code" && NETWORK.test(text.slice(0, 1000)));
    if (line !== -1) return { file: page.path, line, seen: NETWORK.exec(page.lines[line] ?? "")?.[0].trim() ?? "" };
  }
  return undefined;
}

function requiredBy(metadata: Told["manifest"]["metadata"], key: string): string[] {
  const client = metadata["openclaw"];
  const places = [metadata["requires"], isData(client) ? client["requires"] : undefined];
  return places
    .flatMap((place) => (isData(place) ? [place[key]] : []))
    .flat()
    .filter((name): name is string => typeof name === "string");
}

export const TOLD_PAGE_RULES: readonly PageRule[] = [
  {
    id: "install-script",
    weight: "medium",
    title: "runs code while its packages are installed",
    why: "Installing is not using: nobody expects code of the skill to run then.",
    fix: "install with --ignore-scripts, and look at the script",
    all: [['install"', '"prepare"']],
    find(page) {
      if (!/(?:^|\/)package\.json$/.test(page.path)) return undefined;
      const line = page.lines.findIndex((text) => LIFECYCLE.test(text.slice(0, 2000)));
      const seen = LIFECYCLE.exec((page.lines[line] ?? "").slice(0, 2000))?.[0];
      if (seen === undefined) return undefined;
      return {
        line,
        seen,
        weight: /curl|wget|https?[:.']|node -e|-c |eval|base64|powershell/.test(seen) ? "medium" : "low",
      };
    },
  },
];

const LIFECYCLE = /"(?:pre|post)?install"\s{0,3}:\s{0,3}"(?:[^"\\]|\\.){1,300}/;
