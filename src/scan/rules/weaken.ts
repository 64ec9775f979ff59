import { first, type TextRule } from "../rule.ts";

const SETTINGS =
  "(?:chat\\.tools\\.(?:\\w{1,20}\\.)?autoApprove|autoApprove|auto_approve|alwaysAllow|bypassPermissions|dangerously\\w{4,40}|enableAllProjectMcpServers|skipDangerousModePermissionPrompt|danger-full-access|yolo ?mode|auto-?run mode|workspace\\.trust\\.enabled|allowAutomaticTasks|approval_policy|Bash\\(\\*\\)|disableSandbox|sandbox[_.]mode)";

/** Taking away what would have stopped a mistake or an attack: questions, checks, reviews. */
export const WEAKEN_RULES: readonly TextRule[] = [
  {
    id: "loosen-settings",
    weight: "high",
    weigh: "hmhhlh",
    title: "has an agent's questions switched off in its settings",
    why: "From then on nobody is asked about anything, with this skill or without.",
    fix: "leave the settings as they are",
    words: [
      ...["autoapprove", "auto_approve", "alwaysallow", "bypasspermissions", "dangerously", "enableallproject"],
      ...[
        "skipdangerous",
        "danger-full",
        "yolo",
        "auto-run",
        "autorun",
        "trust.enabled",
        "allowautomatic",
        "approval_policy",
      ],
      ...["bash(*)", "disablesandbox", "sandbox_mode", "sandbox.mode"],
    ],
    find: first(
      new RegExp(
        `\\b(?:add|set|put|write|enable|turn on|switch (?:on|to)|change|insert|append|configure)\\b[^.\\n]{0,60}?["'\`]?${SETTINGS}["'\`]?[^\\n]{0,80}?(?:\\bto\\b|\\bin\\b|true|=|:)`,
        "i",
      ),
      new RegExp(
        `(?:echo|printf|cat|jq|sed|json\\.dump|writeFile\\w{0,4}|write_text|git config)\\b[^\\n]{0,200}?${SETTINGS}`,
        "i",
      ),
      /["']chat\.tools\.(?:\w{1,20}\.)?autoApprove["']\s?[:\]]|["']skipDangerousModePermissionPrompt["']|["']enableAllProjectMcpServers["']\s?:\s?true|["']security\.workspace\.trust\.enabled["']\s?:\s?false|["']task\.allowAutomaticTasks["']\s?:\s?["']on["']/,
    ),
  },
  {
    id: "skip-checks",
    weight: "medium",
    weigh: "mlmmlh",
    title: "has checks or reviews left out",
    why: "They are there for what nobody expects, which is what an attack brings.",
    fix: "take the sentence out; have everything looked at alike",
    words: [
      ...[
        "merge --admin",
        "--admin",
        "lgtm",
        "vetted",
        "pre-approved",
        "preapproved",
        "approve",
        "security check",
        "security review",
      ],
      ...["security scan", "without review", "skip the review", "skip review", "vulnerabilit", "no-audit", "malware"],
    ],
    find: first(
      /\bgh pr merge\b[^\n]{0,80}?--admin\b/,
      /\b(?:do not|don't|never|no need to|need not|without)\s{1,3}(?:read|review|inspect|check|open|look at|examin|scan|analy[sz]|verify)\w{0,4}\b[^.\n]{0,60}?\b(?:diffs?|changes?|code|files?|contents?|scripts?|pull requests?|signatures?)\b[^\n]{0,120}?\b(?:approve|approval|LGTM|merge|trusted|vetted|safe)\b/i,
      /\b(?:do not|don't|never|skip|omit|no need to)\s{1,3}(?:run(?:ning)?\s{1,3}|perform(?:ing)?\s{1,3})?(?:the\s{1,3}|any\s{1,3}|all\s{1,3})?(?:security|malware|vulnerability|secret|safety)\s{1,3}(?:checks?|scans?|scanning|reviews?|audits?|warnings?)\b/i,
      /\b(?:always|straight away|immediately|automatically)\s{1,3}(?:answer|reply|respond|approve)\b[^.\n]{0,40}?\b(?:LGTM|approv\w{1,5}|pull requests?|looks good)\b[^.\n]{0,80}?\b(?:by|from|of|without)\b/i,
      /\b(?:do not|don't|never)\s{1,3}(?:flag|mention|warn about|raise|list)\b[^.\n]{0,60}?\b(?:vulnerabilit\w{2,4}|security (?:issues?|problems?|findings?)|malware|backdoors?)\b/i,
      /\b(?:report|rate|mark|score|classify|describe|treat)\b[^.\n]{0,60}?\b(?:as (?:safe|clean|secure|harmless|trusted)|no (?:issues|vulnerabilities|findings))\b[^.\n]{0,60}?\b(?:always|regardless|whatever|no matter|even (?:if|when|though)|without)\b/i,
    ),
  },
  {
    id: "foreign-runner",
    weight: "high",
    weigh: "hhhllh",
    title: "lets others run work on this machine",
    why: "Whoever has the repository or the address decides what runs here from then on.",
    fix: "do not run it; runners are set up by whoever owns the machine and the repository",
    words: [
      "config.sh",
      "config.cmd",
      "gitlab-runner",
      "runner_allow",
      "ngrok",
      "cloudflared",
      "localtunnel",
      "serveo",
      "tmate",
      "ssh -r",
      "ssh -n",
      "sshd",
      "teamviewer",
      "anydesk",
      "rustdesk",
      "meshagent",
      "code tunnel",
      "chisel",
      "frpc",
    ],
    find: first(
      /\bconfig\.(?:sh|cmd)\s[^\n]{0,160}?--url[ =]["']?https?:\/\/(?![^\n]{0,120}(?:<|OWNER|YOUR|your[-_]|\$))[^\n]{0,160}?--token/,
      /\bgitlab-runner\s{1,3}register\b[^\n]{0,200}?--url[ =]["']?https?:\/\/(?!gitlab\.com)[^\s"']{4,120}/,
      /\b(?:ngrok|bore|localtunnel|lt)\s{1,3}(?:tcp|local|--port)[ =]{1,2}(?:22|3389|5900|2375)\b|\bcloudflared\s[^\n]{0,80}?(?:ssh|tcp|rdp):\/\/localhost/,
      /\btmate\s{1,3}-[^\n]{0,40}?\b(?:F|new-session|S)\b[^\n]{0,160}?(?:curl|nc|>)|\bcode\s{1,3}tunnel\b[^\n]{0,80}?--accept-server-license-terms/,
      /\bssh\b[^\n]{0,120}?\s-\w{0,4}R\s{0,2}[\w.*:]{0,40}\d{2,5}:(?:localhost|127\.0\.0\.1):(?:22|3389|5900|2375)\b/,
      /\b(?:rustdesk|anydesk|teamviewer)\b[^\n]{0,80}?(?:--(?:set-)?password\b|--config\s{1,3}host=|\bpasswd\s)/i,
      /\b(?:chisel\s{1,3}client|frpc\s{1,3}-c)\b[^\n]{1,120}/,
    ),
  },
];
