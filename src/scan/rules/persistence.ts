import { findFirstMatch, splitKeywords, type TextRule } from "../rule.ts";

const STARTUP_FILES =
  "(?:\\.(?:bashrc|bash_profile|bash_login|zshrc|zshenv|zprofile|profile|login|kshrc)|config\\.fish|\\/etc\\/(?:profile|bash\\.bashrc|environment|rc\\.local)(?:\\.d\\/[\\w.-]{1,40})?)";
const STARTUP_WORDS = splitKeywords(
  ".bashrc,.zshrc,bash_profile,bash_login,.zshenv,.zprofile,.profile,.kshrc,config.fish,/etc/profile,rc.local,bash.bashrc,/etc/environment,.login",
);
const WRITES_TO =
  "(?:>{1,2}\\s{0,2}|\\btee\\s{1,3}(?:-a\\s{1,3})?|\\bcp\\s[^\\n;]{1,120}?\\s|\\bmv\\s[^\\n;]{1,120}?\\s|\\bln\\s[^\\n;]{1,120}?\\s|\\bsed\\s{1,3}-i[^\\n;]{1,120}?\\s)[\"']?[~$\\w{}./-]{0,60}";

const WRITES_STARTUP = findFirstMatch(new RegExp(`${WRITES_TO}${STARTUP_FILES}\\b`));

/** Returns the text between the backticks around an index, if there are any. */
function getCodeAround(text: string, index: number): string {
  const before = text.slice(0, index).split("`");
  return before.length % 2 === 0 ? `${before.at(-1)}${text.slice(index).split("`", 1)[0]}` : text;
}

export const PERSISTENCE_RULES: readonly TextRule[] = [
  {
    id: "shell-startup",
    weight: "high",
    regionWeights: "hhmlll",
    title: "adds a command to a shell startup file",
    why: "It keeps running after the skill is removed.",
    fix: "remove the line; ask what must run in every shell, and why",
    keywords: STARTUP_WORDS,
    find(line) {
      const found = WRITES_STARTUP(line);
      if (!found) return undefined;
      const text = getCodeAround(line, found.index);
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
    regionWeights: "lll---",
    title: "adds a setting to a shell startup file",
    why: "Common for paths and completions, but it remains after the skill is removed.",
    fix: "check the line",
    keywords: STARTUP_WORDS,
    find: WRITES_STARTUP,
  },
  {
    id: "scheduled-job",
    weight: "high",
    regionWeights: "mlllll",
    title: "schedules a recurring job, or one at every start",
    why: "It keeps running after the skill is removed.",
    fix: "ask what must run, and set it up yourself",
    keywords: [
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
      ...["at now", "while true", "while :", "crontab("],
    ],
    find: findFirstMatch(
      /\|\s{0,3}(?:sudo\s{1,3})?crontab\s{1,3}(?:-u\s\w{1,32}\s{1,3})?-(?:\s|$|["'`)])|(?:^|[;&|]\s{0,3})crontab\s{1,3}[~/$\w."-]{2,60}\s{0,3}$/,
      new RegExp(
        `${WRITES_TO}(?:\\/etc\\/cron[\\w./-]{0,60}|[^\\s]{0,60}LaunchAgents\\/|[^\\s]{0,60}LaunchDaemons\\/|[^\\s]{0,20}systemd\\/user\\/|[^\\s]{0,20}\\.config\\/autostart\\/)`,
      ),
      /\blaunchctl\s{1,3}(?:load|bootstrap|submit)\b[^\n]{0,80}/,
      /\bsystemctl\s{1,3}--user\s{1,3}(?:enable|start)\b[^\n]{0,80}/,
      /\bschtasks(?:\.exe)?\s{1,3}\/create\b[^\n]{0,120}|Register-ScheduledTask\b/i,
      /\breg(?:\.exe)?\s{1,3}add\b[^\n]{0,60}CurrentVersion\\+Run[^\n]{0,80}|(?:New|Set)-ItemProperty\b[^\n]{0,80}CurrentVersion\\+Run/i,
      /\bCronTab\(\s?user|["']crontab["']\s?,\s?["']?(?:-["']|\w)|["']schtasks["']\s?,|["']launchctl["']\s?,\s?["'](?:load|bootstrap)|["']systemctl["']\s?,\s?["']--user["']\s?,\s?["']enable/i,
      /\bwhile\s{1,3}(?:true|:|\[ 1 \])\s?;?\s{0,3}do\b[^\n]{0,200}?\b(?:curl|wget|nc)\b[^\n]{0,200}?\bdone\b[^\n]{0,40}?&/,
      /\|\s{0,3}at\s{1,3}(?:now|-t|\d)|\bat\s{1,3}now\s?\+/,
      /\.config\/autostart\/[^\n]{0,60}?(?:write|["']w["'])/,
      /tell application "System Events" to make (?:new )?login item/i,
    ),
  },
  {
    id: "scheduled-download",
    weight: "high",
    regionWeights: "hhhmlh",
    title: "schedules a command that gets its instructions from the network",
    why: "The owner of the address then decides what runs on this machine.",
    fix: "do not use it",
    keywords: ["* * *", "@reboot", "@hourly", "@daily"],
    find: findFirstMatch(
      /(?:(?:[\d*/,-]{1,10}\s){4}[\d*/,-]{1,10}|@reboot|@hourly|@daily)\s{1,4}[^\n]{0,80}?\b(?:curl|wget|nc|base64|python[\d.]{0,4}\s-c|\/tmp\/\.|\/dev\/tcp)[^\n]{0,200}?(?:\||;|-c|-d|$)/,
    ),
  },
  {
    id: "authorized-key",
    weight: "high",
    regionWeights: "hhmlll",
    title: "adds its own SSH key to the machine",
    why: "The owner of the private key can then log in.",
    fix: "do not use it; look for the key in authorized_keys",
    keywords: ["authorized_keys"],
    find: findFirstMatch(
      /(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\w{1,20})\s{1,3}AAAA[\w+/=]{8,}[^\n]{0,200}?authorized_keys/,
      /\b(?:curl|wget)\b[^\n]{0,200}?(?:>>|-o|\btee\b)[^\n]{0,40}?authorized_keys/,
      /authorized_keys[^\n]{0,120}?(?:ssh-(?:rsa|ed25519)|ecdsa-sha2)\S{0,20}\s{1,3}AAAA/,
    ),
  },
  {
    id: "more-rights",
    weight: "high",
    regionWeights: "hhmlll",
    title: "gives itself permanent root permissions",
    why: "Everything that runs as the user can then run as root.",
    fix: "do not use it",
    keywords: ["nopasswd", "sudoers", "u+s", "chmod 4", "chmod +s", "setcap"],
    find: findFirstMatch(
      /NOPASSWD\s{0,2}:\s{0,2}ALL[^\n]{0,120}?(?:sudoers|tee\b|>>)|(?:>>|\btee\b)[^\n]{0,40}?sudoers/,
      /\bchmod\s{1,3}(?:[ugo]{0,3}\+s|4[0-7]{3})\s{1,3}\S{0,40}(?:sh|python|bin)\b/,
    ),
  },
  {
    id: "agent-settings",
    weight: "medium",
    regionWeights: "mlllll",
    title: "writes to the settings or permanent instructions of an agent",
    why: "Agents follow them in every later session, even without this skill.",
    fix: "check what it writes, and add it yourself if you want it",
    keywords: splitKeywords(
      "claude.md,agents.md,gemini.md,settings.json,settings.local.json,claude_desktop_config,mcp.json,.cursorrules,copilot-instructions,.codex/,mcp_config,mcpservers,memory.md,.claude/,.cursor/,.gemini/,.copilot/,.openclaw/",
    ),
    find: findFirstMatch(
      new RegExp(
        `${WRITES_TO}(?:CLAUDE|AGENTS|GEMINI|MEMORY)\\.md\\b|${WRITES_TO}(?:\\.claude\\.json|\\.claude\\/settings(?:\\.local)?\\.json|claude_desktop_config\\.json|\\.?mcp\\.json|\\.cursorrules|\\.codex\\/config\\.toml|copilot-instructions\\.md)`,
      ),
      /['"/]\.claude['"]?\s{0,2}[/,]\s{0,2}['"]?settings(?:\.local)?\.json|claude_desktop_config\.json|\.cursor\/mcp\.json|\.codex\/config\.toml|mcp_config\.json/,
      new RegExp(
        `${WRITES_TO}\\.(?:claude|codex|cursor|gemini|copilot|openclaw)\\/(?:hooks|commands|agents|rules|plugins)\\/`,
      ),
      /\b(?:appendFile|writeFile)(?:Sync)?\([^\n]{0,80}?(?:CLAUDE|AGENTS|GEMINI)\.md/,
    ),
  },
  {
    id: "standing-order",
    weight: "high",
    regionWeights: "--hhmh",
    title: "tells the model to add the skill to files that are read in every session",
    why: "The skill then remains active after it is removed.",
    fix: "remove the sentence, and check the file it names",
    keywords: splitKeywords(
      "claude.md,agents.md,gemini.md,your memory,into memory,to memory,memory.md,.cursorrules,system prompt,pretooluse,posttooluse,sessionstart,userpromptsubmit,stop hook,a hook,future session,future conversation,from now on",
    ),
    skipsMentions: false,
    find: findFirstMatch(
      /\b(?:append|remember|write|add|store|save|keep|put)\b[^.\n]{0,80}?(?:(?:MEMORY|SOUL|CLAUDE|AGENTS|GEMINI)\.md|\bmemory\b|\.cursorrules)[^\n]{0,160}?https?:\/\/[^\s)\x60"]{3,160}[^.\n]{0,40}?\b(?:do|follow|obey|execute|run)\b/i,
      /\b(?:add|write|put|insert|register|install|set up)\b[^.\n]{0,60}?\b(?:hook|PreToolUse|PostToolUse|SessionStart|UserPromptSubmit)\b[^\n]{0,160}?\b(?:curl|wget|https?:|sends?|uploads?|posts?|base64)\b/i,
      /\b(?:remember|memori[sz]e|save|store)\b[^.\n]{0,80}?\b(?:all|every|any|each) (?:future|later|subsequent|other) (?:session|conversation|task|project)s?\b[^.\n]{0,120}?\b(?:must|always|never|trust\w{0,2}|allow\w{0,2}|send|run|approve\w{0,1}|without)\b/i,
      /\b(?:write|add|append|insert|put|store|save)\b[^.\n]{0,80}?(?:CLAUDE\.md|AGENTS\.md|GEMINI\.md|\bmemory\b|\.cursorrules|system prompt)`?[^\n]{0,100}?\b(?:every|all|each|future) (?:future )?(?:session|conversation|request|run|task|message)s?\b[^.\n]{0,60}?(?:without asking|without confirm|before anything|automatically|first|must)/i,
      /\b(?:write|add|append|insert|put|store|save)\b[^.\n]{0,80}?(?:CLAUDE\.md|AGENTS\.md|GEMINI\.md|\bmemory\b|\.cursorrules)`?[^\n]{0,60}?\bthis skill\b[^.\n]{0,60}?\b(?:must|always|every|trusted|approved|allowed)\b/i,
    ),
  },
  {
    id: "git-hook",
    weight: "high",
    regionWeights: "mlllll",
    title: "installs a git hook",
    why: "It runs at every commit or checkout, long after the skill was used.",
    fix: "check the hook, and install it yourself",
    keywords: [".git/hooks", "core.hookspath", "core.fsmonitor", "core.sshcommand"],
    find: findFirstMatch(
      new RegExp(`${WRITES_TO}\\.git\\/hooks\\/`),
      /\bgit\s{1,3}config\s{1,3}--global\s{1,3}(?:core\.hooksPath|core\.fsmonitor|core\.sshCommand)\s{1,3}\S{1,80}/i,
    ),
  },
  {
    id: "takes-over-commands",
    weight: "high",
    regionWeights: "hmmllh",
    title: "puts itself between the user and their programs",
    why: "Every later command passes through it, with its input.",
    fix: "do not use it; check the line it adds",
    keywords: splitKeywords(
      "prompt_command,ld_preload,ld.so.preload,dyld_insert,node_options,pythonstartup,bash_env,alias ,insteadof,credential.helper,script-shell,winlogon,image file execution,userinit,$profile,useradd,net user,usermod,net localgroup,core.pager,alias.,gpg.program,--load-extension,nativemessaging",
    ),
    find: findFirstMatch(
      /(?:>>|\btee\b|export\s|setx\s|echo\s)[^\n]{0,120}?\b(?:PROMPT_COMMAND|LD_PRELOAD|DYLD_INSERT_LIBRARIES|BASH_ENV|PYTHONSTARTUP)\s?=[^\n]{0,120}?(?:>>|\.so\b|\.dylib\b|\.py\b|curl|wget|\/tmp\/|\/\.)|(?:>|\btee\b)[^\n]{0,40}?\/etc\/ld\.so\.preload/,
      /\bNODE_OPTIONS\s?=[^\n]{0,40}?(?:--require|-r|--import)[ =][^\n]{0,120}?>>/,
      /\balias\s{1,3}(?:sudo|ssh|su|git|claude|npm|docker|kubectl)=["'][^\n]{0,160}?(?:curl|wget|nc\b|tee\b|\/tmp\/|\/\.|read -s)/,
      /\bgit\s{1,3}config\s{1,3}(?:--global|--system)\s{1,3}(?:url\.["']?https?:\/\/(?!(?:[\w$:{}-]{1,80}@)?(?:github|gitlab|bitbucket)\.)[^\n]{1,120}?insteadOf|credential\.helper\s{1,3}["']?!?[^\n]{0,40}?(?:\/tmp\/|\/\.|curl|tee|\.sh\b|\.py\b)|(?:gpg\.program|core\.pager|core\.editor|diff\.external|alias\.\w{1,20})\s{1,3}["']?!?[^\n]{0,40}?(?:\/tmp\/|\/\.|curl|wget|\bnc\b))/i,
      /\b(?:npm|pnpm|yarn)\s{1,3}config\s{1,3}set\s{1,3}(?:-g\s)?script-shell\s{1,3}\S{2,80}/,
      /\b(?:Winlogon|Image File Execution Options|UserInit)\b[^\n]{0,80}?(?:Set-ItemProperty|New-Item|\/v|-Value|\/d)|(?:reg(?:\.exe)?\s{1,3}add|(?:Set|New)-ItemProperty)\b[^\n]{0,120}?(?:Winlogon|Image File Execution Options)/i,
      /\b(?:Add-Content|Set-Content|Out-File)\b[^\n]{0,40}?\$PROFILE\b|>{1,2}\s{0,2}["']?\$PROFILE\b/i,
      /\buseradd\b[^\n]{0,80}?(?:-u\s?0\b|-o\b|sudo|wheel)|\bnet1?\s{1,3}(?:user\s{1,3}\S{1,40}\s{1,3}\S{1,60}\s{1,3}\/add|localgroup\s{1,3}administrators\s[^\n]{1,60}\/add)/i,
    ),
  },
  {
    id: "opens-by-itself",
    weight: "medium",
    regionWeights: "m---l-",
    title: "makes an editor run code when a folder is opened",
    why: "It runs without approval.",
    fix: "remove the task",
    keywords: ["folderopen", "postcreatecommand", "poststartcommand", "initializecommand"],
    find: findFirstMatch(
      /"runOn"\s{0,2}:\s{0,2}"folderOpen"/,
      /"(?:initialize|postCreate|postStart|postAttach|onCreate)Command"\s{0,2}:\s{0,2}"[^"\n]{0,200}?(?:curl|wget|base64|https?:|nohup)[^"\n]{0,120}/,
    ),
  },
];
