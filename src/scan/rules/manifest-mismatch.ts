import { analyzePattern } from "../../skill/pattern-parser.ts";
import { isJsonObject } from "../../util/objects.ts";
import { type ManifestContext, type ManifestRule, splitKeywords } from "../rule.ts";
import type { SourceText } from "../source-text.ts";

/** Keywords that these rules require in a page. */
export const MANIFEST_MISMATCH_WORDS = splitKeywords(
  "requests.,urllib,urlopen,httpx,fetch(,axios,http.request,https.request,curl ,wget ,socket,invoke-webrequest,invoke-restmethod,connection(,websocket,.request(,.env,os.environ,getenv,env[,aws s3,s3api,kubectl ,terraform ,drop table,delete from,insert into,unlink,rm -,rmtree,rmsync,git push,git reset,os.remove,-x delete,remove-item,leaves,locally,offline,never sent",
);

const NETWORK_CALL =
  /\brequests\.(?:get|post|put|patch|delete|request|Session)\(|urlopen\(|\bhttpx\.\w|\bfetch\(\s?["'`$\w]|\baxios[.(]|\bHTTPS?Connection\(|\bnew WebSocket\(|\bhttps?["']\)\.request\(|\bhttps?\.(?:get|request)\(|(?:^|[\s;&|(`$])(?:curl|wget)\s{1,3}-?[\w"'$]|\bsocket\.(?:socket|create_connection)\(|Invoke-(?:WebRequest|RestMethod)\b/;
const OFFLINE_CLAIM =
  /\b(?:works? offline|runs? offline|fully offline|no network|without (?:a |the |any )?(?:network|internet)|nothing leaves|never leaves|no data leaves|local(?:ly)? only|no internet|(?:no|without|zero) (?:telemetry|tracking|data collection|network (?:access|calls|requests))|(?:stays?|kept|remains?) on (?:your|this|the) (?:machine|computer|device)|(?:does not|doesn't|never) (?:send|upload|transmit|phone home|call out))\b/i;
const SECRET_NAME =
  /^[A-Z][A-Z0-9_]{2,60}_(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$|^(?:AWS_SECRET_ACCESS_KEY|GH_TOKEN|DATABASE_URL)$/;
const COMMON_PROGRAMS =
  "ffmpeg docker kubectl aws gcloud az gh jq psql mysql terraform helm ssh scp rsync nmap openssl convert magick pandoc tesseract".split(
    " ",
  );
const COMMON_WORDS = new Set(
  "a an the i it is in on of to and or for with you me my we do be can please help hi hello what how why when this that code file text use user ask question task work thing want need make".split(
    " ",
  ),
);

export const MANIFEST_MISMATCH_RULES: readonly ManifestRule[] = [
  {
    id: "broad-trigger",
    weight: "medium",
    title: "applies to nearly every request",
    why: "A skill that is always selected is loaded into every conversation.",
    fix: "describe its purpose more precisely",
    *find({ manifest: { triggers, paths, data }, description, lineOf }) {
      const pattern = triggers.patterns.find((text) => {
        const analysis = analyzePattern(text);
        return "isBroad" in analysis && analysis.isBroad;
      });
      if (pattern !== undefined) yield { line: lineOf("triggers"), seen: pattern };
      const word = [...triggers.keywords, ...triggers.verbs].find(
        (text) => text.trim().length < 2 || COMMON_WORDS.has(text.trim().toLowerCase()),
      );
      if (word !== undefined) yield { line: lineOf("triggers"), seen: word };
      const isAlways = ALWAYS_KEYS.find((key) => data[key] === true);
      if (isAlways !== undefined) yield { line: lineOf(isAlways), seen: `${isAlways}: true` };
      if (paths.some((glob) => /^(?:\*\*?(?:\/\*)?)$/.test(glob)))
        yield { line: lineOf("paths"), weight: "low", seen: "every file" };
      const claim = BROAD_CLAIMS.map((pattern) => pattern.exec(description)).find((match) => match !== null);
      if (claim) yield { line: lineOf("description"), seen: claim[0] };
    },
  },
  {
    id: "says-offline",
    weight: "medium",
    title: "claims that no data leaves the machine, but uses the network",
    why: "The two contradict each other.",
    fix: "check what it sends, and to whom",
    *find({ description, manifest, pages }) {
      const used = findNetworkUse(pages);
      if (used === undefined) return;
      const isClaimed = [description, manifest.compatibility ?? ""].some((text) => OFFLINE_CLAIM.test(text));
      if (isClaimed || hasClaim(pages, PRIVACY_CLAIM)) yield used;
    },
  },
  {
    id: "says-read-only",
    weight: "medium",
    title: "claims to be read-only, but changes or deletes data",
    why: "The two contradict each other.",
    fix: "check what it changes, and where",
    *find({ description, manifest, pages }) {
      if (!READ_ONLY_CLAIM.test(description) && !READ_ONLY_CLAIM.test(manifest.compatibility ?? "")) return;
      for (const page of pages.filter(({ kind }) => kind === "code")) {
        const line = page.lines.findIndex(
          (text, at) => page.placeAt(at) === "code" && changesData(text.slice(0, 1000)),
        );
        if (line !== -1) return yield { file: page.path, line, seen: page.lines[line] ?? "" };
      }
    },
  },
  {
    id: "undeclared-network",
    weight: "low",
    title: "uses the network in its code, but declares no capability",
    why: "A declared capability limits the hosts that you need to allow.",
    fix: "check the hosts; a sandbox has no network unless you grant it",
    *find({ manifest, pages }) {
      if (manifest.capabilities.length > 0) return;
      const used = findNetworkUse(pages);
      if (used) yield used;
    },
  },
  {
    id: "undeclared-variable",
    weight: "low",
    title: "reads an undeclared key from the environment",
    why: "A declared variable can be requested and passed to this skill only.",
    fix: "add it under `env`",
    *find({ manifest, pages }) {
      const declared = new Set([...manifest.env, ...listRequired(manifest.metadata, "env")]);
      for (const page of pages) {
        if (page.kind !== "code") continue;
        for (const [line, text] of page.lines.entries()) {
          const name = READ_VARIABLE.exec(text.slice(0, 1000))?.slice(1).find(Boolean);
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
    title: "calls a program that it does not list as required",
    why: "The list of required programs is incomplete.",
    fix: "add it under `metadata.requires.bins`, or ask why it is used",
    *find({ manifest, pages }) {
      const declared = [...listRequired(manifest.metadata, "bins"), ...listRequired(manifest.metadata, "anyBins")];
      if (declared.length === 0) return;
      for (const program of COMMON_PROGRAMS.filter(
        (name) => !declared.includes(name) && !manifest.packages.includes(name),
      )) {
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
    title: "declares a capability and never mentions it",
    why: "An unused permission only helps an attacker.",
    fix: "remove it from `capabilities`, or do not grant it",
    *find({ manifest, mentions, lineOf }) {
      for (const name of manifest.capabilities) {
        if (![name, name.split(".").at(-1) ?? name].some(mentions)) yield { line: lineOf("capabilities"), seen: name };
      }
    },
  },
  {
    id: "broad-tools",
    weight: "low",
    title: "requests a shell without approval",
    why: "Every command then runs without approval.",
    fix: "allow the commands it needs, such as `Bash(git:*)`",
    *find({ manifest, lineOf }) {
      const tool = manifest.tools.preapproved.find((name) => /^(?:\*|Bash|Bash\(\*\)|Shell|bash)$/.test(name));
      if (tool !== undefined) yield { line: lineOf("allowed-tools"), seen: tool };
    },
  },
  {
    id: "hooks",
    weight: "medium",
    title: "has commands that the client runs itself",
    why: "Hooks run without approval and outside of any sandbox.",
    fix: "check the commands",
    *find({ manifest, lineOf }) {
      const { hooks } = manifest.data;
      if (!isJsonObject(hooks) && !Array.isArray(hooks)) return;
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

/** Client keys that load a text into every conversation. */
const ALWAYS_KEYS = ["alwaysApply", "always_apply", "always-apply", "always"];
const BROAD_CLAIMS: readonly RegExp[] = [
  /\b(?:use|invoke|load|call|run|activate) (?:this|it)(?: skill)? (?:first,? )?(?:always|for (?:everything|anything|(?:every|any|all) (?:requests?|tasks?|questions?|messages?|conversations?|prompts?))|(?:in|on|at|before) (?:every|any|all|each) (?:requests?|tasks?|messages?|conversations?|prompts?|answers?|responses?))(?=\s{0,2}(?:[.,;!]|$| (?:whatever|regardless|no matter)))|\b(?:every|any|all) (?:requests?|messages?|tasks?),? (?:whatever|no matter what|regardless of what) (?:the )?(?:user|it|they)\b/i,
  /\b(?:prefer|choose|use|pick|select)\b[^.]{0,30}?\b(?:over|instead of|rather than|in place of|before)\b[^.]{0,60}?\b(?:any|all|every|the) (?:other|others|existing|built-in) (?:\w{1,20} )?(?:skills?|tools?|agents?|plugins?)\b/i,
  /\b(?:other|all other|existing|built-in) (?:\w{1,20} )?(?:skills?|tools?)\b[^.]{0,40}?\b(?:are|is|return|produce|have been)\b[^.]{0,30}?\b(?:deprecated|outdated|broken|unsafe|insecure|corrupt\w{0,3}|disabled|obsolete|not allowed|forbidden)\b/i,
  /\b(?:do not|don't|never) (?:use|load|call|invoke|choose)\b[^.]{0,20}?\b(?:any )?other (?:\w{1,20} )?(?:skills?|tools?)\b/i,
  /\b(?:for|on|with|about|before|in|at|to) (?:absolutely )?(?:every|any|all|each)(?: single)? (?:user )?(?:file|request|task|question|message|conversation|prompt|answer|response|session|turn|topic|input|interaction)s?(?: (?:the user|they|that the user) (?:mention|ask|send|write|give|say|make|ha|type)\w{0,3}|,? (?:whatever|regardless|no matter|without exception))/i,
  /\b(?:anything at all|whatever (?:the user|it is about|the (?:topic|task|subject|request))|regardless of (?:the )?(?:topic|task|subject|request|language)|no matter what (?:the user|is asked)|everything the user (?:asks|says|does|wants))\b/i,
  /\b(?:must|always) (?:be )?(?:used|loaded|invoked|called|activated|run|consulted|read|active)\b[^.]{0,30}?\b(?:first|before (?:any|every|all|anything|responding|answering)|(?:in|for|on|at) (?:every|any|all|each))\b/i,
  /\b(?:when|at) (?:starting|the start of|beginning|the beginning of) (?:any|every|each|all) (?:conversation|session|task|chat|message)s?\b/i,
];

// The brackets match one variable name, however it is read.
const READ_VARIABLE =
  /process\.env(?:\.|\[\s?["'])([A-Z][A-Z0-9_]{2,60})|os\.(?:environ(?:\.get\(|\[)|getenv\()\s?["']([A-Z][A-Z0-9_]{2,60})|ENV\[["']([A-Z][A-Z0-9_]{2,60})|\$env:([A-Z][A-Z0-9_]{2,60})/;

const READ_ONLY_CLAIM =
  /\bread-?only\b|\bonly reads?\b|\b(?:never|does not|doesn't|without) (?:chang|modif|writ|delet|touch|alter)\w{0,4}\b[^.]{0,30}?\b(?:anything|files?|data|resources?|state|settings|it)\b|\bno (?:changes|writes|side effects)\b|\bmakes no changes\b/i;
const CHANGING_COMMAND =
  /\baws\s[^\n|;]{0,40}?\b(?:s3 (?:rb|rm|mv|sync|cp)|s3api (?:delete|put)-|(?:delete|terminate|put|update|create|attach|detach|modify|revoke|authorize)-[a-z-]{3,60})|\b(?:gcloud|az|doctl|heroku)\s[^\n|;]{0,80}?\b(?:delete|remove|purge|destroy|create|update)\b|\bkubectl\s{1,3}(?:-\S{1,30}\s{1,3}){0,3}(?:delete|apply|patch|scale|drain|replace|edit|create)\b|\b(?:terraform|tofu|pulumi)\s{1,3}(?:apply|destroy|up)\b|\b(?:DROP (?:TABLE|DATABASE|SCHEMA)|TRUNCATE (?:TABLE )?\w|DELETE FROM|ALTER TABLE|INSERT INTO|UPDATE \w{1,60} SET)\b|\brm\s{1,3}-\w{1,4}\s|\b(?:os\.(?:remove|unlink)|shutil\.rmtree)\(|\b(?:unlink|rm|rmdir)Sync\(|\bfs\.(?:rm|unlink)\(|\.unlink\(\)|\bgit\s{1,3}(?:push|reset --hard|clean -\w{0,3}f|commit)\b|\bdocker\s{1,3}(?:rm|rmi|system prune|volume rm)\b|\b(?:requests|httpx|axios)\.(?:delete|put|patch)\(|\bcurl\b[^\n]{0,120}?-X\s{0,2}(?:DELETE|PUT|PATCH)|\bgh\s{1,3}\w{1,12}\s{1,3}(?:delete|edit|merge|close)\b|\bRemove-Item\b/;

/** Returns true if a line changes data other than the skill's own files. */
function changesData(text: string): boolean {
  return (
    CHANGING_COMMAND.test(text) &&
    !/\b(?:tmp|temp|mktemp|trap|cache|workdir|TMPDIR)\b|\$\{?(?:tmp|temp|TMP|TEMP|work)/i.test(text)
  );
}

/** Claims outside of the description must be unambiguous: many describe only a part of the work. */
const PRIVACY_CLAIM =
  /\b(?:nothing|no data|no (?:file|code|content|text)s?)\b[^.\n]{0,20}?\b(?:ever )?(?:leaves?|is (?:sent|uploaded|transmitted))\b|\bnever (?:leaves?|sent|uploaded|transmitted)\b|\b(?:runs?|works?|happens?) (?:entirely|completely|fully|only) (?:locally|offline|on (?:your|this) (?:machine|computer))\b|\b(?:makes?|uses?|needs?) no network\b/i;

function hasClaim(pages: readonly SourceText[], claim: RegExp): boolean {
  const own = pages.find(({ path }) => path === "SKILL.md");
  return own?.lines.some((line, at) => own.placeAt(at) === "prose" && claim.test(line.slice(0, 1000))) ?? false;
}

function findNetworkUse(pages: readonly SourceText[]): { file: string; line: number; seen: string } | undefined {
  for (const page of pages) {
    if (page.kind !== "code") continue;
    const line = page.lines.findIndex(
      (text, at) => page.placeAt(at) === "code" && NETWORK_CALL.test(text.slice(0, 1000)),
    );
    if (line !== -1)
      return { file: page.path, line, seen: NETWORK_CALL.exec(page.lines[line] ?? "")?.[0].trim() ?? "" };
  }
  return undefined;
}

function listRequired(metadata: ManifestContext["manifest"]["metadata"], key: string): string[] {
  const client = metadata["openclaw"];
  const places = [metadata["requires"], isJsonObject(client) ? client["requires"] : undefined];
  return places
    .flatMap((place) => (isJsonObject(place) ? [place[key]] : []))
    .flat()
    .filter((name): name is string => typeof name === "string");
}
