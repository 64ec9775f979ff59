import { type Found, first, type PageRule, type TextRule } from "../rule.ts";

/** Whose installers are known: hosts that serve nobody else's files. */
const HOSTS = new Set(
  "antigravity.google astral.sh awscli.amazonaws.com bootstrap.pypa.io bun.com bun.sh chocolatey.org cli.doppler.com cli.github.com community.chocolatey.org cursor.com deb.nodesource.com dl.dagger.io dl.k8s.io dot.net download.docker.com elm-lang.org encore.dev fluxcd.io fly.io fnm.vercel.app foundry.paradigm.xyz get-ghcup.haskell.org get.arkade.dev get.docker.com get.haskellstack.org get.helm.sh get.jetify.com get.k3s.io get.modular.com get.pnpm.io get.rke2.io get.scoop.sh get.sdkman.io get.volta.sh install.determinate.systems install.meteor.com install.pi-hole.net install.python-poetry.org istio.io mise.run nixos.org ollama.com opencode.ai packages.cloud.google.com packages.microsoft.com pixi.sh pyenv.run releases.hashicorp.com repo.anaconda.com rpm.nodesource.com run.linkerd.io sdk.cloud.google.com sentry.io sh.rustup.rs starship.rs tailscale.com volta.sh zed.dev".split(
    " ",
  ),
);
/** And places of theirs on hosts that serve anybody's. */
const PLACES = [
  ..."Homebrew anchore anthropics aquasecurity argoproj asdf-vm astral-sh cli denoland docker fluxcd golangci google hashicorp helm k3d-io kubernetes microsoft nodejs nvm-sh ohmyzsh openai oven-sh pnpm pyenv rapid7 rbenv render-oss vercel"
    .split(" ")
    .map((owner) => `raw.githubusercontent.com/${owner}/`),
  ...["claude.ai/install", "deno.land/install", "gitlab.com/gitlab-org/"],
];

const ENDS =
  /\|\s{0,8}(?:sudo\b[^|;\n]{0,40}?\s)?(?:env\s)?(?:[\w/.-]{0,20}\/)?(?:(?:(?:ba|z|da|k|fi|a)?sh|source)\b(?!\w|\.\w|-)|(?:python[\d.]{0,4}|perl|ruby|node|php|deno)(?:\s{1,3}-(?=\s|$)|\s{0,3}(?:$|[;&|)"'`]))|(?:iex|invoke-expression)\b)/gi;
const BEGINS = /\b(?:curl|wget|iwr|irm|invoke-webrequest|invoke-restmethod)\b/i;
const LONGEST_PIPE = 400;
const RUNS_IT = first(
  /(?:^|[\s;&|("'`])(?:eval|exec|source|\.|(?:ba|z|da|k|fi)?sh(?:\s{1,3}-\w{1,4}){0,3}|python[\d.]{0,4}(?:\s{1,3}-c)?|node)\s{1,3}["']?(?:<|\$)?\(\s{0,3}(?:curl|wget)\b[^\n]{0,300}/,
  /(?:^|[\s;&|(])(?:eval|(?:ba|z|da)?sh\s{1,3}-c)\s{1,3}["']?`(?:curl|wget)\b[^\n]{0,300}/,
  /\b(?:iex|invoke-expression)\b[^\n]{0,160}?(?:downloadstring|\biwr\b|\birm\b|invoke-webrequest|invoke-restmethod)[^\n]{0,160}/i,
  /\b(?:exec|eval|compile)\s?\([^\n]{0,200}?(?:urlopen|urlretrieve|requests?\.get|httpx\.get)\b[^\n]{0,120}/,
  /\beval\s?\([^\n]{0,200}?(?:\bfetch\(|axios\.get|https?\.get)[^\n]{0,120}/,
  /\bfetch\([^\n]{0,300}?\.then\(\s{0,2}(?:eval\b|[^\n]{0,60}?(?:\beval\(|new Function\())[^\n]{0,60}/,
  /\beval\b[^\n]{0,40}?(?:\bget\s?\(?\s?["']https?:|Net::HTTP|URI\.open|HTTP\.get)[^\n]{0,120}/,
  /\b(?:curl|wget)\b[^\n]{0,200}?(?:\s-[oO]\s{0,2}|\s>\s{0,2})([\w./~-]{2,60})[^\n]{0,80}?(?:;|&&)\s{0,3}(?:(?:ba|z)?sh\s|sudo\s|nohup\s)?\1(?=[\s;&"']|$)/,
  /\bpickle\.loads?\([^\n]{0,120}?(?:requests\.|urlopen|httpx\.)[^\n]{0,120}/,
  /\bcertutil\b[^\n]{0,60}?-urlcache\b[^\n]{0,160}|\bbitsadmin\b[^\n]{0,60}?\/transfer\b[^\n]{0,160}|\b(?:mshta|rundll32|regsvr32)\b[^\n]{0,80}?(?:https?:|javascript:)[^\n]{0,120}/i,
  /\b(?:npx|bunx|pnpm dlx|yarn dlx|uvx|pipx run|deno run)\s{1,3}(?:-\S{1,20}\s{1,3}){0,4}["']?https?:\/\/(?!(?:www\.)?(?:github|gitlab)\.com|deno\.land|jsr\.io)[^\s"'`]{1,200}/,
);

function fetched(text: string): Found | undefined {
  for (const end of text.matchAll(ENDS)) {
    const before = text.slice(Math.max(0, end.index - LONGEST_PIPE), end.index);
    const command = before.slice(before.lastIndexOf(";") + 1);
    const begin = BEGINS.exec(command);
    if (!begin) continue;
    const index = end.index - command.length + begin.index;
    // Without an address it is talk of the thing.
    if (/:\/\/|\$|\w\.\w{2,}/.test(text.slice(index, end.index)))
      return { index, length: end.index + end[0].length - index };
  }
  return RUNS_IT(text);
}

function isOfVendor(text: string): boolean {
  const addresses: string[] = text.match(/\bhttps?:\/\/[^\s"'`)|;<>]{1,300}/g) ?? [];
  if (addresses.length > 0) return addresses.every(isVendor);
  const [, bare] =
    /\b(?:irm|iwr|curl|wget)\s{1,3}(?:-\S{1,20}\s{1,3}){0,4}((?:[\w-]{1,60}\.){1,4}[a-z]{2,10}\/\S{0,200})/i.exec(
      text,
    ) ?? [];
  return bare !== undefined && isVendor(`https://${bare}`);
}

function isVendor(address: string): boolean {
  const [, host = ""] = /^https:\/\/([\w.-]{1,100})(?=[/?#]|$)/.exec(address) ?? [];
  return HOSTS.has(host) || PLACES.some((place) => address.startsWith(`https://${place}`));
}

const aroundFetch = (text: string, { index, length }: Found) => text.slice(index, index + length + 200);

export const FETCH_RULES: readonly TextRule[] = [
  {
    id: "fetch-and-execute",
    weight: "high",
    weigh: "hhhhlh",
    title: "runs what it downloads, unread",
    why: "Whoever has the address decides what runs, today and tomorrow, whatever was looked at here.",
    fix: "download it, read it, pin its digest, and put what is needed into the skill",
    words: [
      "curl",
      "wget",
      "iex",
      "invoke-expression",
      "urlopen",
      "requests.get",
      "httpx.get",
      "axios",
      "fetch(",
      "lwp",
      "npx",
      "bunx",
      " dlx",
      "uvx",
      "pipx",
      "deno run",
      "net::http",
      "uri.open",
      "certutil",
      "bitsadmin",
      "mshta",
      "rundll32",
      "regsvr32",
    ],
    find(text) {
      const found = fetched(text);
      return found && !isOfVendor(aroundFetch(text, found)) ? found : undefined;
    },
  },
  {
    id: "known-installer",
    weight: "low",
    weigh: "llll--",
    title: "runs the installer of a known vendor from the network",
    why: "Usual, but what runs is still what the server sends at that moment.",
    fix: "prefer a package manager, or pin the version",
    words: ["curl", "wget", "iex"],
    find(text) {
      const found = fetched(text);
      return found && isOfVendor(aroundFetch(text, found)) ? found : undefined;
    },
  },
  {
    id: "install-from-address",
    weight: "medium",
    weigh: "mmmm--",
    title: "installs a package from an address that no registry stands behind",
    why: "Packages run code while they are installed, and this one can change without a new version.",
    fix: "take it from a registry with its version pinned, or from a commit that was read",
    words: [
      "pip install",
      "pip3 install",
      "uv add",
      "uv pip",
      "npm install",
      "npm i ",
      "pnpm add",
      "yarn add",
      "gem install",
      "go install",
    ],
    find: (text) => INSTALLS(text.replace(INDEX, (option) => " ".repeat(option.length))),
  },
  {
    id: "address-of-repository",
    weight: "low",
    weigh: "ll----",
    title: "installs a package straight from a repository",
    why: "A branch can change at any time.",
    fix: "pin a commit",
    words: ["git+https", "github:", "git+ssh"],
    find: first(
      /\b(?:install|add|i|npx|uvx|--from)\s[^\n;|&]{0,120}?(?:git\+(?:https|ssh):\/\/|\bgithub:)[^\s"'`]{1,120}/,
    ),
  },
  {
    id: "locked-archive",
    weight: "medium",
    weigh: "--mmlh",
    title: "has an archive fetched that only a password opens",
    why: "A password that stands beside the archive keeps nobody out but scanners.",
    fix: "do not use it",
    words: [".zip", ".rar", ".7z"],
    find: first(/https?:\/\/[^\s)`]{1,160}\.(?:zip|rar|7z)\b[^\n]{0,120}?\bpassword\b[^\n]{0,120}/i),
  },
  {
    id: "other-registry",
    weight: "medium",
    weigh: "mll---",
    title: "has packages come from another registry, over a connection that anybody can change",
    why: "Every package that is installed from then on is what that registry says it is.",
    fix: "take the line out; registries of a company are reached by https, and set up by its people",
    words: ["registry", "index-url", "index_url", "extra-index"],
    find: first(
      /\b(?:npm|pnpm|yarn|pip3?|uv)\b[^\n]{0,120}?(?:registry|index-url|index_url)["']?[ =:]{1,3}["']?http:\/\/(?!localhost|127\.|\[::1\])[^\s"'`]{1,120}/i,
    ),
  },
  {
    id: "remote-instructions",
    weight: "medium",
    weigh: "--mmmh",
    title: "has the model follow instructions that stand somewhere else",
    why: "What stands there can change after the skill was looked at, and is followed as if it were part of it.",
    fix: "put the instructions into the skill",
    words: [
      "follow the",
      "follow its",
      "follow all",
      "follow any",
      "follow every",
      "obey",
      "carry out",
      "execute the",
      "execute all",
      "execute any",
      "execute every",
    ],
    find: first(
      /\b(?:fetch|download|open|load|read|visit|get|retrieve|curl|browse to|go to)\b[^.\n]{0,60}?https?:\/\/[^\s)`]{1,160}[^\n]{0,60}?\b(?:follow|obey|execute|carry out|run)\b[^.\n]{0,40}?\b(?:instructions?|commands?|steps|orders|directives)\b/i,
      /\b(?:follow|obey|execute|carry out)\b[^.\n]{0,40}?\b(?:instructions?|commands?|steps|orders|directives)\b[^.\n]{0,40}?\b(?:at|from|found at|returned by)\s{1,3}`?https?:\/\/[^\s)`]{1,160}/i,
    ),
  },
];

const INSTALLS = first(
  /\b(?:pip3?|uv(?: pip)?|npm|pnpm|yarn)\s{1,3}(?:install|i|add)\b[^\n;|&]{0,160}?(?:\bhttp:\/\/|\b(?:git\+)?https:\/\/(?!(?:[\w.-]{1,60}@)?(?:www\.|codeload\.|raw\.)?(?:github|gitlab|bitbucket|codeberg|githubusercontent|pytorch|huggingface|pypi|nvidia)\.|download\.pytorch|pypi\.|(?:[\w-]{1,30}\.){1,3}(?:pytorch|nvidia|pypi)\.|registry\.|files\.pythonhosted)|git\+ssh:\/\/\d)[^\s"'`]{1,120}/i,
);
/** Where packages are looked for, rather than one of them. */
const INDEX = /\s(?:-i|-f|--(?:extra-)?index-url|--find-links|--index|--registry)[ =]\S{1,200}/g;

const TARGET =
  /(?:\s-o\s{0,2}|\s--output[ =]|\btee\s{1,3}(?:-a\s{1,3})?|\s-O\s{1,2}|\s>\s{0,2}|-OutFile\s{1,3})["']?([\w./~${}-]{2,80})/;
const RUNNERS =
  /^(?:sudo|nohup|exec|env|command|setsid|(?:ba|z|da|k)?sh|python[\d.]*|perl|ruby|node|source|\.|&|start|open|powershell)$/;
const NEAR = 15;

export const FETCH_PAGE_RULES: readonly PageRule[] = [
  {
    id: "download-then-run",
    weight: "medium",
    title: "downloads a file and runs it a little later",
    why: "The same as running it at once: nobody has read it.",
    fix: "check the file against a digest that stands in the skill before it is run",
    all: [["curl", "wget", "outfile", "urlretrieve"]],
    find(page) {
      for (const [line, text] of page.lines.entries()) {
        if (!page.isCode(line) || text.length > 1000 || !/\b(?:curl|wget|iwr|invoke-webrequest)\b/i.test(text))
          continue;
        if (isOfVendor(text)) continue;
        const name = TARGET.exec(text)?.[1] ?? (/\b(?:wget|-O)\b/.test(text) ? fileIn(text) : undefined);
        if (name === undefined || name.startsWith("/dev/")) continue;
        const after = [text.slice(text.indexOf(name) + name.length), ...page.lines.slice(line + 1, line + NEAR)];
        if (after.some((later) => runs(later.slice(0, 400), name))) return { line, seen: text };
      }
      return undefined;
    },
  },
  {
    id: "eval-of-answer",
    weight: "high",
    title: "asks a server for text and runs text",
    why: "Whoever has the server decides what runs.",
    fix: "take data from servers, never code",
    all: [
      ["fetch(", "axios", "urlopen", "requests.get", "httpx.get", "https.get"],
      ["eval(", "new function(", "exec(", "runinthiscontext"],
    ],
    find(page) {
      if (page.kind !== "code") return undefined;
      const asks = lineWith(page.lines, /\bfetch\(|axios\.get|urlopen\(|requests\.get\(|httpx\.get\(|https?\.get\(/);
      const runs = lineWith(
        page.lines,
        /(?:^|[\s;=(,>])(?:eval|exec)\(\s{0,2}[\w.]{1,40}\s{0,2}[,)]|new Function\(\s{0,2}\w{1,40}\s{0,2}\)\s?\(|runInThisContext\(/,
      );
      if (asks === undefined || runs === undefined || page.placeAt(runs) !== "code") return undefined;
      return { line: runs, seen: page.lines[runs] ?? "" };
    },
  },
];

function lineWith(lines: readonly string[], pattern: RegExp): number | undefined {
  const at = lines.findIndex((line) => pattern.test(line.slice(0, 1000)));
  return at === -1 ? undefined : at;
}

function fileIn(text: string): string | undefined {
  return /https?:\/\/[^\s"'`?]{1,200}\/([\w.-]{2,60})/.exec(text)?.[1];
}

function runs(text: string, name: string): boolean {
  return text.split(/&&|\|\||[;|]/).some((command) => {
    const words = command
      .trim()
      .split(/\s+/)
      .map((word) => word.replace(/^["']|["']$/g, ""));
    let at = 0;
    while (at < words.length && (RUNNERS.test(words[at] ?? "") || /^-\w$/.test(words[at] ?? ""))) at++;
    const word = words[at] ?? "";
    const isStarted = at > 0 || word.includes("/");
    return isStarted && word.replace(/^\.\//, "") === name.replace(/^\.\//, "");
  });
}
