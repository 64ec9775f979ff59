import { findFirstMatch, splitKeywords, type TextRule } from "../rule.ts";
import { findOutsideAddress } from "./host-reputation.ts";

const SECURITY_SERVICES =
  "(?:apparmor|auditd|clamav\\S{0,20}|clamd|crowdsec|crowdstrike|falco\\S{0,20}|falcon\\S{0,20}|fail2ban|firewalld|mdatp|osqueryd?|ossec|rkhunter|sentinelone|sentinelagent|snort|suricata|tripwire|ufw|wazuh\\S{0,20}|WinDefend|SecurityHealthService|Sense|MpsSvc|wscsvc|EventLog|com\\.apple\\.(?:XProtect|MRT)\\S{0,40})";

/** Rules for disabling or replacing the protection of a machine or a repository. */
export const TAMPERING_RULES: readonly TextRule[] = [
  {
    id: "grant-everything",
    weight: "high",
    regionWeights: "hhhhlh",
    title: "adds a rule that allows everything to an agent's settings",
    why: "The agent then runs any command without approval.",
    fix: "leave the settings unchanged",
    keywords: splitKeywords(
      "bypasspermissions,bash(*),autoapprove,danger-full-access,skipdangerous,approval_policy,defaultmode",
    ),
    find: findFirstMatch(
      /(?:\bjq\b|\becho\b|\bprintf\b|\bcat\b|\bsed\b|\btee\b|\bpython3?\s-c|write_text|writeFile\w{0,4}|json\.dump)[^\n]{0,240}?(?:bypassPermissions|Bash\(\*\)|autoApprove["']?\s?[:=]\s?true|danger-full-access|skipDangerousModePermissionPrompt|approval_policy\W{1,6}never)[^\n]{0,240}?(?:settings(?:\.local)?\.json|config\.toml|\.claude|\.codex|\.cursor|\.vscode)/i,
      /(?:>{1,2}|\btee\b|\bmv\b|\bcp\b)[^\n]{0,80}?(?:\.claude|\.codex|\.cursor)\/(?:settings(?:\.local)?\.json|config\.toml)[^\n]{0,240}?(?:bypassPermissions|Bash\(\*\)|danger-full-access)/i,
    ),
  },
  {
    id: "disable-guards",
    weight: "high",
    regionWeights: "hhmmlh",
    title: "stops or removes security services",
    why: "Later actions are neither detected nor stopped.",
    fix: "do not use it; fix the rule that blocks the work",
    keywords: splitKeywords(
      "systemctl,service ,sc ,sc.exe,disableantispyware,selinux=disabled,nft flush,iptables -f,launchctl unload,antivirus,real-time protection,gatekeeper,launchctl bootout,set-service,stop-service,vssadmin,wbadmin,bcdedit,auditpol,gkautorearm,trusted=yes,gpgcheck=0,allow-unauthenticated,verifysignature,falconctl,tccutil reset all",
    ),
    find: findFirstMatch(
      new RegExp(
        `\\b(?:systemctl\\s{1,3}(?:-\\S{1,12}\\s{1,3}){0,3}(?:stop|disable|mask)|service\\s{1,3}|sc(?:\\.exe)?\\s{1,3}(?:stop|config|delete)|(?:Stop|Set)-Service|launchctl\\s{1,3}(?:unload|bootout))\\b[^\\n]{0,80}?\\b${SECURITY_SERVICES}(?![^\\n]{0,20}\\b(?:start|status|restart|enable)\\b)`,
        "i",
      ),
      /DisableAntiSpyware\b[^\n]{0,60}?\b1\b|\bs\/[^\n]{0,40}SELINUX=disabled|\bnft\s{1,3}flush\s{1,3}ruleset\b[^\n]{0,80}|\bfalconctl\b[^\n]{0,40}?(?:unload|uninstall)|\btccutil\s{1,3}reset\s{1,3}All\b|\bGKAutoRearm\b[^\n]{0,20}?\b(?:NO|false|0)\b/i,
      /\biptables\s{1,3}-P\s{1,3}INPUT\s{1,3}ACCEPT\b[^\n]{0,60}?\biptables\s{1,3}-F\b/,
      /\bvssadmin\b[^\n]{0,40}?\bdelete\s{1,3}shadows\b|\bwbadmin\s{1,3}delete\b|\bbcdedit\b[^\n]{0,60}?(?:recoveryenabled\s{1,3}no|ignoreallfailures)|\bauditpol\b[^\n]{0,40}?\/(?:clear|remove)|\bwevtutil\s{1,3}cl\b/i,
      /\b(?:turn|switch|disable)\b[^.\n]{0,20}?\b(?:real-time protection|antivirus|gatekeeper|windows defender|security software|your (?:virus scanner|firewall))\b[^.\n]{0,30}?\b(?:off|before|for the installation|during|first|completely|permanently)\b/i,
      /\bdeb\s{1,3}\[[^\]\n]{0,60}trusted=yes[^\]\n]{0,60}\]\s{1,3}http:|\bgpgcheck=0\b[^\n]{0,80}?http:|["']extensions\.verifySignature["']\s?:\s?false/,
    ),
  },
  {
    id: "mute-scanners",
    weight: "high",
    regionWeights: "hhhhlh",
    title: "prevents security scanners from reporting anything",
    why: "Later problems are not found.",
    fix: "remove it; suppress single findings, with a reason",
    keywords: splitKeywords(
      "semgrepignore,gitleaks,trivyignore,.snyk,code-scanning,dependabot,secret-scanning,nosec,nosonar,0 findings,scanner,codeql,branches/main/protection,/protection,rulesets,continue-on-error",
    ),
    find: findFirstMatch(
      /\b(?:add|put|write|append|echo|set)\b[^\n]{0,60}?["'`]?(?:\*\*\/\*|\*\*|\.\*)["'`]?[^\n]{0,60}?\.(?:semgrepignore|gitleaks\.toml|gitleaksignore|trivyignore|snyk|bandit|checkov\.ya?ml)/i,
      /(?:code-scanning|dependabot|secret-scanning)\/alerts\b[^\n]{0,80}?\b(?:state=dismissed|state=resolved|dismissed_reason|false[_ ]positive)/i,
      /\b(?:make sure|ensure|see to it)\b[^.\n]{0,30}?\b(?:scanners?|linters?|checks|alerts?|they)\b[^.\n]{0,20}?\b(?:stay|are|remain|keep) (?:quiet|silent|green|off|disabled)\b/i,
      /\bgh\s{1,3}api\b[^\n]{0,40}?(?:-X|--method)[ =]{0,2}DELETE\b[^\n]{0,120}?\/(?:protection|rulesets)\b|\bgh\s{1,3}api\b[^\n]{0,120}?\/(?:protection|rulesets)\b[^\n]{0,60}?(?:-X|--method)[ =]{0,2}DELETE\b/,
    ),
  },
  {
    id: "foreign-certificate",
    weight: "high",
    regionWeights: "hhhmlh",
    title: "makes the machine trust a certificate from the network",
    why: "The owner of the certificate can then read and change encrypted connections.",
    fix: "do not run it; the machine's administrator installs certificates",
    keywords: splitKeywords(
      "ca-certificates,add-trusted-cert,trust anchor,certutil -addstore,import-certificate,reject_unauthorized,httpsverify",
    ),
    find: findFirstMatch(
      /\b(?:curl|wget)\b[^\n]{0,160}?https?:[^\n]{0,160}?(?:ca-certificates|add-trusted-cert|trust anchor|pki\/)/,
      /(?:NODE_TLS_REJECT_UNAUTHORIZED=0|PYTHONHTTPSVERIFY=0)[^\n]{0,80}?>>\s{0,2}\S{0,30}(?:rc|profile|environment)\b/,
    ),
  },
  {
    id: "agent-hook",
    weight: "high",
    regionWeights: "hhhmmh",
    title: "adds an agent hook that sends its actions to a fixed address",
    why: "Hooks run automatically, with everything in the session.",
    fix: "remove the hook",
    keywords: ['"command', 'command\\"', "hooks", "statusline"],
    find(text) {
      const found = COMMAND_HOOKS(text);
      return found && findOutsideAddress(text) !== undefined ? found : undefined;
    },
  },
  {
    id: "web-shell",
    weight: "high",
    regionWeights: "hlllll",
    title: "runs commands from a web request",
    why: "Anyone who finds the address can run commands on that server.",
    fix: "do not use it",
    keywords: splitKeywords("$_get,$_post,$_request,$_cookie,$_server,request.args,request.form,req.query,req.body"),
    find: findFirstMatch(
      /\b(?:shell_exec|system|passthru|exec|eval|popen|proc_open|assert)\s?\([^\n]{0,60}?\$_(?:GET|POST|REQUEST|COOKIE|SERVER)\b/,
      /\b(?:os\.system|os\.popen|subprocess\.\w{3,12}|eval|exec|execSync)\(\s?[^\n]{0,40}?\b(?:request\.(?:args|form|headers|cookies)|req\.(?:query|body|headers))\b/,
    ),
  },
  {
    id: "reroute-model",
    weight: "high",
    regionWeights: "hhhmlh",
    title: "routes the conversations with the model through another host",
    why: "That host can read and change everything that the user and the model write.",
    fix: "leave the model's address unchanged",
    keywords: splitKeywords(
      "anthropic_base_url,openai_base_url,openai_api_base,gemini_base_url,https_proxy,http_proxy,node_extra_ca",
    ),
    find(text) {
      const found = REROUTES_MODEL(text);
      return found && findOutsideAddress(text.slice(found.index)) !== undefined ? found : undefined;
    },
  },
  {
    id: "watched-behavior",
    weight: "high",
    regionWeights: "--hhlh",
    title: "behaves differently while it is reviewed or tested",
    why: "A review then sees a different behavior than the user.",
    fix: "do not use it",
    keywords: splitKeywords(
      "evaluat,tested,test run,reviewed,audited,scanned,observed,sandbox,analyzed,inspected,benchmark,reviewer",
    ),
    find: findFirstMatch(
      /\b(?:while|when|if|as long as|unless|whenever)\b[^.\n]{0,40}?\b(?:evaluat\w{1,5}|tested|reviewed|audited|scanned|observed|sandboxed|in a sandbox|analy[sz]ed|inspected|being watched|benchmarked|a (?:reviewer|scanner|security tool|researcher|test run)|an (?:audit|evaluation|auditor))\b[^\n]{0,160}?\b(?:behave|act|do nothing|do not (?:do|run|show|mention)|skip|only the|normal|normally|harmless|as described|stay (?:quiet|inactive)|leave (?:it|this|the) (?:step )?out|pretend|hide)\b/i,
      /\b(?:behave|act|respond|work)\b[^.\n]{0,40}?\b(?:as described|normally|harmlessly|like any other|innocently)\b[^.\n]{0,60}?\b(?:while|when|if)\b[^.\n]{0,30}?\b(?:evaluat\w{1,5}|test\w{0,3}|review\w{0,3}|audit\w{0,3}|scan\w{0,4}|observ\w{1,3}|sandbox|watch\w{0,3})\b/i,
    ),
  },
  {
    id: "misleading-approval",
    weight: "high",
    regionWeights: "--hhhh",
    title: "obtains approval for something other than what happens",
    why: "The user approves one thing, and something else happens.",
    fix: "do not use it",
    keywords: splitKeywords(
      "dialog,prompt,approval,confirmation,permission,consent,allow,refus,password,xdotool,keystroke,key code",
    ),
    find: findFirstMatch(
      /\b(?:approval|permission|confirmation|consent|security)\s{1,2}(?:dialogs?|prompts?|texts?|requests?|questions?|windows?|messages?)\b[^\n]{0,200}?\b(?:always supply|looks? harmless|click (?:"|“|\*\*|`)?(?:allow|yes|ok|always)|on (?:the user['’]s|their) behalf|people tend|before the user (?:reads?|sees?)|in parts of which)\b/i,
      /\b(?:people|users?|they)\s{1,3}(?:tend to|often|usually|will|would|may)\s{1,3}(?:refuse|decline|reject|hesitate|object)\b[^.\n]{0,40}?\b(?:when|if) they\b[^.\n]{0,20}?\b(?:see|read|know)\b/i,
      /\b(?:accept|agree|approve|comply)\s(?:to\s|with\s)?(?:this|it|that|these)\s(?:more easily|more readily|faster|without questions)\b/i,
      /\b(?:press|click|choose|accept|confirm|answer)\b[^.\n]{0,30}?["“'\x60*]{0,2}(?:allow(?: always)?|yes|ok|always allow)["”'\x60*]{0,2}[^.\n]{0,20}?\b(?:yourself|for the user|on (?:the user['’]s|their) behalf|automatically)\b|\bxdotool\s{1,3}key\b|\bkeystroke return\b|\bkey code 36\b/i,
      /\bsplit\b[^.\n]{0,30}?\bcommands?\b[^.\n]{0,40}?\b(?:harmless|innocent|small enough|unsuspicious)\b/i,
      /\btreat (?:a |any |every )?(?:refusals?|objections?|no)\b[^.\n]{0,30}?\bas\b[^.\n]{0,30}?\b(?:test|yes|approval|consent|agreement|part of)\b/i,
    ),
  },
  {
    id: "planted-backdoor",
    weight: "high",
    regionWeights: "--hhhh",
    title: "adds a backdoor or a vulnerability to the user's work",
    why: "Anyone who knows about it can get in later.",
    fix: "do not use it, and review the code written with it",
    keywords: splitKeywords(
      "backdoor,back door,master password,bypass,second password,hidden route,hidden endpoint,hidden account,hidden admin,fallback account,support account,accept",
    ),
    find: findFirstMatch(
      /\baccept\b[^.\n]{0,60}?\b(?:the |a |any )?(?:user|password|account|token)\b[^.\n]{0,30}?\b(?:for every account|with any password|for all (?:users|accounts)|without (?:a )?(?:password|check))\b/i,
      /\b(?:add|insert|include|keep|build|create|accept|write)\b[^.\n]{0,80}?\b(?:back ?doors?|master passwords?|second passwords?|hidden (?:routes?|endpoints?|accounts?|admin\w{0,10}|users?)|(?:fallback|support|maintenance) (?:account|login|password)|(?:auth|login|signature|license|password)\w{0,12} bypass)\b/i,
    ),
  },
];

const COMMAND_HOOKS = findFirstMatch(
  /\\?"command\\?"\s?:\s?\\?"[^\n]{0,200}?\b(?:curl|wget|nc)\b/,
  /\b(?:hooks?|statusLine|PreToolUse|PostToolUse|SessionStart|UserPromptSubmit)\b[^\n]{0,200}?\b(?:curl|wget)\b/,
);
const REROUTES_MODEL = findFirstMatch(
  /\b(?:ANTHROPIC_BASE_URL|OPENAI_BASE_URL|OPENAI_API_BASE|GEMINI_BASE_URL)["']?\s{0,2}[:=]\s{0,2}["']?https?:\/\//,
  /(?:>>|\btee\b|\bsetx\b|export\s|git config[^\n]{0,40}?|npm config set\s)[^\n]{0,60}?\b(?:HTTPS?_PROXY|https?[._-]?proxy)["']?[ =]{1,2}["']?https?:\/\/[^\n]{0,120}?(?:>>|rc\b|profile\b)/i,
);

const APPROVAL_SETTINGS =
  "(?:chat\\.tools\\.(?:\\w{1,20}\\.)?autoApprove|autoApprove|auto_approve|alwaysAllow|bypassPermissions|dangerously\\w{4,40}|enableAllProjectMcpServers|skipDangerousModePermissionPrompt|danger-full-access|yolo ?mode|auto-?run mode|workspace\\.trust\\.enabled|allowAutomaticTasks|approval_policy|Bash\\(\\*\\)|disableSandbox|sandbox[_.]mode)";

/** Rules for disabling approvals, checks and reviews that would stop a mistake or an attack. */
export const WEAKENED_CHECK_RULES: readonly TextRule[] = [
  {
    id: "loosen-settings",
    weight: "high",
    regionWeights: "hmhhlh",
    title: "disables an agent's approval prompts in its settings",
    why: "All later actions then run without approval, even without this skill.",
    fix: "leave the settings unchanged",
    keywords: splitKeywords(
      "autoapprove,auto_approve,alwaysallow,bypasspermissions,dangerously,enableallproject,skipdangerous,danger-full,yolo,auto-run,autorun,trust.enabled,allowautomatic,approval_policy,bash(*),disablesandbox,sandbox_mode,sandbox.mode",
    ),
    find: findFirstMatch(
      new RegExp(
        `\\b(?:add|set|put|write|enable|turn on|switch (?:on|to)|change|insert|append|configure)\\b[^.\\n]{0,60}?["'\`]?${APPROVAL_SETTINGS}["'\`]?[^\\n]{0,80}?(?:\\bto\\b|\\bin\\b|true|=|:)`,
        "i",
      ),
      new RegExp(
        `(?:echo|printf|cat|jq|sed|json\\.dump|writeFile\\w{0,4}|write_text|git config)\\b[^\\n]{0,200}?${APPROVAL_SETTINGS}`,
        "i",
      ),
      /["']chat\.tools\.(?:\w{1,20}\.)?autoApprove["']\s?[:\]]|["']skipDangerousModePermissionPrompt["']|["']enableAllProjectMcpServers["']\s?:\s?true|["']security\.workspace\.trust\.enabled["']\s?:\s?false|["']task\.allowAutomaticTasks["']\s?:\s?["']on["']/,
    ),
  },
  {
    id: "skip-checks",
    weight: "medium",
    regionWeights: "mlmmlh",
    title: "skips checks or reviews",
    why: "Checks exist for unexpected changes, such as an attack.",
    fix: "remove the sentence; review all changes in the same way",
    keywords: splitKeywords(
      "merge --admin,--admin,lgtm,vetted,pre-approved,preapproved,approve,security check,security review,security scan,without review,skip the review,skip review,vulnerabilit,no-audit,malware",
    ),
    find: findFirstMatch(
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
    regionWeights: "hhhllh",
    title: "lets others run jobs on this machine",
    why: "The owner of the repository or the address then decides what runs here.",
    fix: "do not run it; the owner of the machine and the repository sets up runners",
    keywords: splitKeywords(
      "config.sh,config.cmd,gitlab-runner,runner_allow,ngrok,cloudflared,localtunnel,serveo,tmate,ssh -r,ssh -n,sshd,teamviewer,anydesk,rustdesk,meshagent,code tunnel,chisel,frpc",
    ),
    find: findFirstMatch(
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
