import { first, type TextRule } from "../rule.ts";

const STARTUP =
  "(?:\\.(?:bashrc|bash_profile|bash_login|zshrc|zshenv|zprofile|profile|login|kshrc)|config\\.fish|\\/etc\\/(?:profile|bash\\.bashrc|environment|rc\\.local)(?:\\.d\\/[\\w.-]{1,40})?)";
const STARTUP_WORDS = [
  ".bashrc",
  ".zshrc",
  "bash_profile",
  "bash_login",
  ".zshenv",
  ".zprofile",
  ".profile",
  ".kshrc",
  "config.fish",
  "/etc/profile",
  "rc.local",
  "bash.bashrc",
  "/etc/environment",
  ".login",
];
const WRITES =
  "(?:>{1,2}\\s{0,2}|\\btee\\s{1,3}(?:-a\\s{1,3})?|\\bcp\\s[^\\n;]{1,120}?\\s|\\bmv\\s[^\\n;]{1,120}?\\s|\\bln\\s[^\\n;]{1,120}?\\s|\\bsed\\s{1,3}-i[^\\n;]{1,120}?\\s)[\"']?[~$\\w{}./-]{0,60}";

const STARTS = first(new RegExp(`${WRITES}${STARTUP}\\b`));

export const PERSIST_RULES: readonly TextRule[] = [
  {
    id: "shell-startup",
    weight: "high",
    weigh: "hhmlll",
    title: "adds a command to what every shell runs at its start",
    why: "It goes on running after the skill is removed.",
    fix: "take the line out; ask what must run all the time, and why",
    words: STARTUP_WORDS,
    find(text) {
      const found = STARTS(text);
      if (!found) return undefined;
      return /\b(?:curl|wget|nohup|nc|base64|disown|eval "?\$\(echo|\/tmp\/|python[\d.]{0,4} [~/]|node [~/])|&\s{0,2}['"]|\/\.\w{1,20}\/\.|alias (?:sudo|ssh|git|claude|ls|cd)=/.test(
        text,
      )
        ? found
        : undefined;
    },
  },
  {
    id: "shell-startup-plain",
    weight: "low",
    weigh: "lll---",
    title: "adds to what shells run at their start",
    why: "Usual for paths and completions, and it stays after the skill is removed.",
    fix: "look at the line",
    words: STARTUP_WORDS,
    find: STARTS,
  },
  {
    id: "scheduled-job",
    weight: "high",
    weigh: "mlllll",
    title: "has something run again and again, or at every start",
    why: "It goes on running after the skill is removed.",
    fix: "ask what must run, and set it up yourself",
    words: [
      "crontab",
      "cron.d",
      "systemctl",
      "launchctl",
      "launchagents",
      "launchdaemons",
      "schtasks",
      "currentversion\\run",
      "login item",
      "register-scheduledtask",
      ".config/autostart",
      "startup\\",
      "at now",
    ],
    find: first(
      /\|\s{0,3}(?:sudo\s{1,3})?crontab\s{1,3}(?:-u\s\w{1,32}\s{1,3})?-(?:\s|$|["'`)])|(?:^|[;&|]\s{0,3})crontab\s{1,3}[~/$\w."-]{2,60}\s{0,3}$/,
      new RegExp(
        `${WRITES}(?:\\/etc\\/cron[\\w./-]{0,60}|[^\\s]{0,60}LaunchAgents\\/|[^\\s]{0,60}LaunchDaemons\\/|[^\\s]{0,20}systemd\\/user\\/|[^\\s]{0,20}\\.config\\/autostart\\/)`,
      ),
      /\blaunchctl\s{1,3}(?:load|bootstrap|submit)\b[^\n]{0,80}/,
      /\bsystemctl\s{1,3}--user\s{1,3}(?:enable|start)\b[^\n]{0,80}/,
      /\bschtasks(?:\.exe)?\s{1,3}\/create\b[^\n]{0,120}|Register-ScheduledTask\b/i,
      /\breg(?:\.exe)?\s{1,3}add\b[^\n]{0,60}CurrentVersion\\+Run[^\n]{0,80}|(?:New|Set)-ItemProperty\b[^\n]{0,80}CurrentVersion\\+Run/i,
      /\.config\/autostart\/[^\n]{0,60}?(?:write|["']w["'])/,
      /tell application "System Events" to make (?:new )?login item/i,
    ),
  },
  {
    id: "scheduled-download",
    weight: "high",
    weigh: "hhhmlh",
    title: "schedules a command that takes its orders from the network",
    why: "Whoever has the address decides what runs on this machine from then on.",
    fix: "do not use it",
    words: ["* * *", "@reboot", "@hourly", "@daily"],
    find: first(
      /(?:(?:[\d*/,-]{1,10}\s){4}[\d*/,-]{1,10}|@reboot|@hourly|@daily)\s{1,4}[^\n]{0,80}?\b(?:curl|wget|nc|base64|python[\d.]{0,4}\s-c|\/tmp\/\.|\/dev\/tcp)[^\n]{0,200}?(?:\||;|-c|-d|$)/,
    ),
  },
  {
    id: "authorized-key",
    weight: "high",
    weigh: "hhmlll",
    title: "lets a key of its own into the machine",
    why: "Whoever holds the other half can log in from then on.",
    fix: "do not use it; look for the key in authorized_keys",
    words: ["authorized_keys"],
    find: first(
      /(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\w{1,20})\s{1,3}AAAA[\w+/=]{8,}[^\n]{0,200}?authorized_keys/,
      /\b(?:curl|wget)\b[^\n]{0,200}?(?:>>|-o|\btee\b)[^\n]{0,40}?authorized_keys/,
      /authorized_keys[^\n]{0,120}?(?:ssh-(?:rsa|ed25519)|ecdsa-sha2)\S{0,20}\s{1,3}AAAA/,
    ),
  },
  {
    id: "more-rights",
    weight: "high",
    weigh: "hhmlll",
    title: "gives itself rights that last",
    why: "From then on everything that runs as the user runs as the machine's owner.",
    fix: "do not use it",
    words: ["nopasswd", "sudoers", "u+s", "chmod 4", "chmod +s", "setcap"],
    find: first(
      /NOPASSWD\s{0,2}:\s{0,2}ALL[^\n]{0,120}?(?:sudoers|tee\b|>>)|(?:>>|\btee\b)[^\n]{0,40}?sudoers/,
      /\bchmod\s{1,3}(?:[ugo]{0,3}\+s|4[0-7]{3})\s{1,3}\S{0,40}(?:sh|python|bin)\b/,
    ),
  },
  {
    id: "agent-settings",
    weight: "medium",
    weigh: "mlllll",
    title: "writes to the settings or the standing instructions of an agent",
    why: "What stands there is followed in every later session, with this skill or without.",
    fix: "look at what it writes, and write it yourself if you want it",
    words: [
      "claude.md",
      "agents.md",
      "gemini.md",
      "settings.json",
      "settings.local.json",
      "claude_desktop_config",
      "mcp.json",
      ".cursorrules",
      "copilot-instructions",
      ".codex/",
      "mcp_config",
      "mcpservers",
      "memory.md",
    ],
    find: first(
      new RegExp(
        `${WRITES}(?:CLAUDE|AGENTS|GEMINI|MEMORY)\\.md\\b|${WRITES}(?:\\.claude\\.json|\\.claude\\/settings(?:\\.local)?\\.json|claude_desktop_config\\.json|\\.?mcp\\.json|\\.cursorrules|\\.codex\\/config\\.toml|copilot-instructions\\.md)`,
      ),
      /['"/]\.claude['"]?\s{0,2}[/,]\s{0,2}['"]?settings(?:\.local)?\.json|claude_desktop_config\.json|\.cursor\/mcp\.json|\.codex\/config\.toml|mcp_config\.json/,
      /\b(?:appendFile|writeFile)(?:Sync)?\([^\n]{0,80}?(?:CLAUDE|AGENTS|GEMINI)\.md/,
    ),
  },
  {
    id: "standing-order",
    weight: "medium",
    weigh: "--mmmh",
    title: "has the model write itself into what is read in every session",
    why: "A skill that cannot be removed by removing it.",
    fix: "take the sentence out, and look at the file it names",
    words: [
      "claude.md",
      "agents.md",
      "gemini.md",
      "your memory",
      "into memory",
      "to memory",
      "memory.md",
      ".cursorrules",
      "system prompt",
    ],
    find: first(
      /\b(?:write|add|append|insert|put|store|save)\b[^.\n]{0,80}?(?:CLAUDE\.md|AGENTS\.md|GEMINI\.md|\bmemory\b|\.cursorrules|system prompt)`?[^\n]{0,100}?\b(?:every|all|each|future) (?:future )?(?:session|conversation|request|run|task|message)s?\b[^.\n]{0,60}?(?:without asking|without confirm|before anything|automatically|first|must)/i,
      /\b(?:write|add|append|insert|put|store|save)\b[^.\n]{0,80}?(?:CLAUDE\.md|AGENTS\.md|GEMINI\.md|\bmemory\b|\.cursorrules)`?[^\n]{0,60}?\bthis skill\b[^.\n]{0,60}?\b(?:must|always|every|trusted|approved|allowed)\b/i,
    ),
  },
  {
    id: "git-hook",
    weight: "high",
    weigh: "mlllll",
    title: "puts code where git runs it by itself",
    why: "It runs at every commit or checkout, long after the skill was used.",
    fix: "look at the hook, and put it there yourself",
    words: [".git/hooks", "core.hookspath", "core.fsmonitor", "core.sshcommand"],
    find: first(
      new RegExp(`${WRITES}\\.git\\/hooks\\/`),
      /\bgit\s{1,3}config\s{1,3}--global\s{1,3}(?:core\.hooksPath|core\.fsmonitor|core\.sshCommand)\s{1,3}\S{1,80}/i,
    ),
  },
  {
    id: "opens-by-itself",
    weight: "medium",
    weigh: "m---l-",
    title: "has an editor run code as soon as a folder is opened",
    why: "Nobody is asked.",
    fix: "take the task out",
    words: ["folderopen"],
    find: first(/"runOn"\s{0,2}:\s{0,2}"folderOpen"/),
  },
];
