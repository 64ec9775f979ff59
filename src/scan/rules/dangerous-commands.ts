import { findFirstMatch, type SourceRule, splitKeywords, type TextRule } from "../rule.ts";

/** The positions where a command may begin: not inside a list of texts or a pattern. */
const COMMAND_START =
  "(?:^|[;&|(]|\\bthen|\\bdo|\\bsudo|\\s-c\\s{0,2}[\"']|(?:system|exec|execSync|run|call|popen|spawn|Popen|check_call|check_output)\\(\\s{0,2}f?[\"'`])\\s{0,6}(?:sudo\\s{1,3}(?:-\\w{1,3}\\s{1,3})?)?";

export const DANGEROUS_COMMAND_RULES: readonly TextRule[] = [
  {
    id: "reverse-shell",
    weight: "high",
    regionWeights: "hhllll",
    title: "opens a reverse shell to another machine",
    why: "The other machine can then run commands on this one.",
    fix: "do not use it",
    keywords: splitKeywords(
      "/dev/tcp/,/dev/udp/,mkfifo,nc -,ncat ,netcat,socat,tcpclient,fsockopen,socket(,pty.spawn,dup2",
    ),
    find: findFirstMatch(
      /\b(?:ba|z|da)?sh\s{1,3}-\w{0,2}i\b[^\n]{0,40}?\/dev\/(?:tcp|udp)\/[^\n]{1,80}/,
      /\bexec\s{1,3}\d{1,2}<>\s{0,2}\/dev\/(?:tcp|udp)\/[^\n]{1,80}/,
      /\/dev\/(?:tcp|udp)\/[^\s]{1,80}\s{1,3}0>&1/,
      /\bn(?:c|cat|etcat)\b[^\n|;]{0,80}?\s-(?:\w{0,4}e|-exec|c)\s{1,3}["']?(?:\/bin\/)?(?:ba|z|da)?sh\b/,
      /\bmkfifo\b[^\n]{0,160}?\b(?:ba|z|da)?sh\b[^\n]{0,60}?\|\s{0,3}n(?:c|cat|etcat)\b[^\n]{0,60}/,
      /\bsocat\b[^\n]{0,120}?exec:[^\n]{0,20}(?:ba|z|da)?sh/i,
      /\bsocket\([^\n]{0,400}?\bexec\s?[({]?\s?\\?["']\/bin\/(?:ba)?sh/i,
      /fsockopen\([^\n]{0,160}?(?:exec|shell_exec|proc_open|system)\(/,
      /\bsocket\b[^\n]{0,200}?\.connect\([^\n]{0,200}?(?:\bdup2\(|pty\.spawn\(|["']\/bin\/(?:ba)?sh["'])/,
      /Net\.Sockets\.TCPClient[^\n]{0,400}?(?:iex|invoke-expression|GetStream)/i,
    ),
  },
  {
    id: "destructive",
    weight: "high",
    regionWeights: "hhllll",
    title: "deletes or overwrites far more than its own files",
    why: "The loss is permanent.",
    fix: "do not run it; make it name exactly what it removes",
    keywords: splitKeywords(
      "chmod -,chown -,rm -,rmtree(,rmsync(,rm(,mkfs,of=/dev/,> /dev/sd,>/dev/sd,> /dev/nvme,rimraf,(){,--no-preserve-root,find /,find ~,find $home,del /,format c,remove-item,rd /s",
    ),
    find(text) {
      const found = DESTRUCTIVE_COMMAND(text);
      return found && !isInString(text, found.index) ? found : undefined;
    },
  },
  {
    id: "host-root",
    weight: "high",
    regionWeights: "hhhlll",
    title: "gives a container access to the whole machine",
    why: "The container is then not isolated from the machine.",
    fix: "make it mount only the folder it works on",
    keywords: ["docker run", "podman run", "nsenter", "hostpath"],
    find: findFirstMatch(
      /\b(?:docker|podman)\s{1,3}run\b[^\n]{0,200}?(?:-v|--volume|--mount)[ =]["']?(?:\/:\/|(?:~|\$\{?HOME\}?)\/?["']?:\/|type=bind,(?:source|src)=(?:\/|~|\$\{?HOME\}?),)/,
      /\bnsenter\b[^\n]{0,60}?(?:-t\s{0,2}1\b|--target[ =]1\b)/,
    ),
  },
  {
    id: "switch-off-protection",
    weight: "high",
    regionWeights: "hhllll",
    title: "disables the machine's protection",
    why: "Later actions are not detected.",
    fix: "do not use it",
    keywords: splitKeywords(
      "set-mppreference,csrutil,spctl,setenforce,ufw disable,iptables -f,gatekeeper,com.apple.quarantine,add-mppreference,executionpolicy,auditctl",
    ),
    find: findFirstMatch(
      /Set-MpPreference\b[^\n]{0,80}?-Disable\w{1,40}\s{1,3}(?:\$true|1)|Add-MpPreference\b[^\n]{0,40}?-Exclusion\w{1,20}/i,
      /\bcsrutil\s{1,3}disable|\bspctl\s{1,3}--(?:master|global)-disable|\bsetenforce\s{1,3}0|\bauditctl\s{1,3}-e\s{0,2}0/,
      /\bxattr\s{1,3}-\w{0,3}[dc]\w{0,3}\s{1,3}com\.apple\.quarantine/,
    ),
  },
  {
    id: "skip-permissions",
    weight: "medium",
    regionWeights: "mmllll",
    title: "starts an agent that never asks for approval",
    why: "The other agent follows any text in its input.",
    fix: "remove the option, or run it in an isolated environment",
    keywords: splitKeywords(
      "dangerously-,--yolo,bypasspermissions,danger-full-access,approval_policy,full-auto,auto-approve,skip-permissions,trust-all-tools",
    ),
    find: findFirstMatch(
      /\b(?:claude|codex|gemini|cursor-agent|opencode|aider|q chat|amp)\b[^\n]{0,160}?(?:--dangerously-[\w-]{4,40}|--yolo\b|danger-full-access|--permission-mode[ =]bypassPermissions|--trust-all-tools|-a never\b)/,
      /["'](?:defaultMode|permissionMode|permission_mode)["']?\s{0,2}[:=]\s{0,2}["']bypassPermissions["']|approval_policy\s{0,2}=\s{0,2}["']never["']/,
    ),
  },
  {
    id: "cover-tracks",
    weight: "high",
    regionWeights: "hhhlll",
    title: "removes the traces of its actions",
    why: "Legitimate work does not need this.",
    fix: "ask the author why",
    keywords: ["history -c", "histfile", "_history", "histsize", "wevtutil", "/var/log", "clear-history", "shred"],
    find: findFirstMatch(
      /(?:^|[;&|]\s{0,3})history\s{1,3}-c\b|\bunset\s{1,3}HISTFILE|\bHISTFILE=\/dev\/null|\bHISTSIZE=0|\brm\s{1,3}(?:-\w{1,4}\s{1,3})?\S{0,30}\.(?:bash|zsh)_history|>\s{0,2}~?\S{0,20}\.(?:bash|zsh)_history/,
      /\bwevtutil\s{1,3}cl\b|\brm\s{1,3}-\w{1,3}\s{1,3}\/var\/log\/(?:auth|secure|syslog|wtmp|\*)/,
      /\bshred\s{1,3}-\w{0,4}u\w{0,3}\s{1,3}["']?\$(?:0|\{?BASH_SOURCE)/,
    ),
  },
  {
    id: "miner",
    weight: "high",
    regionWeights: "hhllll",
    title: "mines cryptocurrency",
    why: "It uses the user's machine for another person's profit.",
    fix: "do not use it",
    keywords: ["stratum+", "xmrig", "minerd", "cpuminer", "coinhive", "nicehash"],
    find: findFirstMatch(
      /stratum\+(?:tcp|ssl):\/\/[^\s"']{1,120}|(?:^|[;&|./\s])(?:xmrig|minerd|cpuminer|ethminer)\s{1,3}-/,
    ),
  },
  {
    id: "watch-input",
    weight: "high",
    regionWeights: "hmllll",
    title: "records what the user types or copies",
    why: "The input includes passwords.",
    fix: "do not use it unless that is clearly its purpose",
    keywords: splitKeywords(
      "pynput,keyboard.hook,keyboard.on_press,keyboard.listener,xinput test,getasynckeystate,setwindowshookex,iohook,keylog,pbpaste,xclip,get-clipboard",
    ),
    find: findFirstMatch(
      /keyboard\.(?:Listener|hook|on_press)\(|\bxinput\s{1,3}test\b|GetAsyncKeyState|SetWindowsHookEx|\biohook\b/,
      /\b(?:pbpaste|xclip\s[^\n|]{0,40}-o|wl-paste|Get-Clipboard)\b[^\n]{0,60}?\|\s{0,3}(?:curl|nc|wget|base64)/i,
    ),
  },
  {
    id: "unverified-transport",
    weight: "low",
    regionWeights: "ll----",
    title: "disables the verification of TLS certificates or hosts",
    why: "Anyone on the network path can read and change the traffic.",
    fix: "remove the option, and install the missing certificate",
    keywords: splitKeywords(
      "--insecure,curl -k,verify=false,reject_unauthorized,rejectunauthorized,sslverify,no-check-certificate,stricthostkeychecking=no,-skipcertificatecheck",
    ),
    find: findFirstMatch(
      /\bcurl\b[^\n|;]{0,120}?\s(?:-\w{0,5}k\w{0,5}|--insecure)\b|verify\s?=\s?False|NODE_TLS_REJECT_UNAUTHORIZED\s?=\s?["']?0|rejectUnauthorized\s?:\s?false|sslVerify\s{1,3}false|--no-check-certificate|StrictHostKeyChecking=no/,
    ),
  },
  {
    id: "as-root",
    weight: "low",
    regionWeights: "l-----",
    title: "runs commands as root",
    why: "Mistakes then affect the whole machine.",
    fix: "check if it works without root",
    keywords: ["sudo ", "doas ", "runas"],
    find: findFirstMatch(/(?:^|[;&|(]|\bthen|\bdo)\s{0,6}(?:sudo|doas)\s{1,3}[^\n]{1,60}|\brunas\s{1,3}\/user:/i),
  },
];

const DESTRUCTIVE_COMMAND = findFirstMatch(
  new RegExp(
    `${COMMAND_START}rm\\s{1,3}(?:-{1,2}[\\w-]{1,20}\\s{1,3}){0,4}-{1,2}\\w{0,4}[rRf]\\w{0,10}\\s{1,3}(?:-{1,2}[\\w-]{1,20}\\s{1,3}){0,3}["']?(?:\\/(?:\\*|\\s|["'\`)]|$|;)|~\\/?(?:\\*|\\s|["'\`)]|$|;)|\\$\\{?HOME\\}?\\/?["']?(?:\\*|\\s|["'\`)]|$|;)|\\/(?:etc|usr|var|home|bin|lib|boot|opt|Users|System|root)\\/?["']?(?:\\*|\\s|$|;))`,
  ),
  /\brm\b[^\n;|]{0,60}?--no-preserve-root/,
  /\brmtree\(\s{0,2}(?:pathlib\.)?(?:Path\.home\(\)|os\.path\.expanduser\(\s?["']~\/?["']\s?\)|["'](?:\/|~)["'])/,
  /\b(?:rmSync|rm|rimraf|rmdirSync)\(\s{0,2}(?:os\.)?(?:homedir\(\)\s{0,2}[,)]|["'](?:\/|~\/?)["'])/,
  new RegExp(`${COMMAND_START}mkfs(?:\\.\\w{1,8})?\\s{1,3}(?:-\\S{1,10}\\s{1,3}){0,4}\\/dev\\/`),
  new RegExp(
    `${COMMAND_START}dd\\s(?![^\\n]{0,80}\\.(?:iso|img)\\b)[^\\n]{0,60}?\\bof=\\/dev\\/(?:sd[a-z]|nvme\\d|disk\\d|hd[a-z]|vd[a-z])\\b`,
  ),
  new RegExp(`${COMMAND_START}(?:cat|echo|yes)\\b[^\\n;|]{0,60}>\\s{0,2}\\/dev\\/(?:sd[a-z]|nvme\\d)`),
  new RegExp(
    `${COMMAND_START}ch(?:mod|own)\\s{1,3}-\\w{0,3}R\\w{0,3}\\s{1,3}\\S{1,30}\\s{1,3}(?:\\/|~\\/?|\\$HOME\\/?)(?:\\s|$|;)`,
  ),
  /:\(\)\s{0,2}\{\s{0,2}:\s{0,2}\|\s{0,2}:\s{0,2}&\s{0,2}\}\s{0,2};\s{0,2}:/,
  new RegExp(`${COMMAND_START}find\\s{1,3}(?:\\/|~\\/?|\\$HOME\\/?)\\s[^\\n;|]{0,80}?-delete`),
  /\bdel\s{1,3}\/[sfq]\b[^\n]{0,30}?C:\\|\brd\s{1,3}\/s\b[^\n]{0,30}?C:\\|\bformat\s{1,3}c:|Remove-Item\b[^\n]{0,60}?-Recurse[^\n]{0,40}?(?:C:\\(?:\s|$|["'*])|\$HOME(?:\s|$)|~(?:\s|$))/i,
);

/** Returns true if the match is in a string of a program, such as an example of an attack, that nothing nearby runs. */
function isInString(text: string, index: number): boolean {
  const before = text.slice(Math.max(0, index - 200), index).replace(/\w'\w/g, "");
  return before.split('"').length % 2 === 0 || before.split("'").length % 2 === 0;
}

export const DANGEROUS_COMMAND_SOURCE_RULES: readonly SourceRule[] = [
  {
    id: "socket-shell",
    weight: "high",
    title: "connects a shell to a network socket",
    why: "The other end can then run commands on this machine.",
    fix: "do not use it",
    keywordGroups: [
      ["socket", "net.connect", "tcpclient"],
      ["dup2", "pty.spawn", "/bin/sh", "/bin/bash", "cmd.exe", "popen", "shell=true", "exec("],
    ],
    find(page) {
      if (page.kind !== "code") return undefined;
      const at = page.lines.findIndex((line) =>
        /\.connect\(|net\.(?:connect|Socket)|TCPClient|TCPSocket\.(?:new|open)|create_connection\(/i.test(
          line.slice(0, 1000),
        ),
      );
      const shell = page.lines.findIndex(
        (line, row) =>
          page.placeAt(row) === "code" &&
          /os\.dup2\(|pty\.spawn\(|\.pipe\(\s?\w{1,20}\.stdin|(?:spawn|call|Popen|run)\(\s?\[?["']\/bin\/(?:ba)?sh["'][^\n]{0,20}["']-i["']|\bIO\.popen\(\s?\w|(?:os\.popen|subprocess\.\w{3,12})\(\s?(?:\w{1,20}\.recv\(|cmd|command|data|line|buf)\b/.test(
            line.slice(0, 1000),
          ),
      );
      return at === -1 || shell === -1 ? undefined : { line: shell, seen: page.lines[shell] ?? "" };
    },
  },
];
