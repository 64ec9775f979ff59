import { first, type TextRule } from "../rule.ts";

/** What nobody else may have, as sentences name it. */
const SECRET =
  "(?:~\\/\\.(?:ssh|aws|gnupg|netrc|npmrc|pypirc|kube|docker|config\\/(?:gh|gcloud)|cursor\\/mcp|claude|codex)|\\.env\\b|id_(?:rsa|ed25519)|claude_desktop_config|mcp\\.json|\\bprintenv\\b|(?:API|private|secret|access|ssh) keys?|passwords\\b|credentials\\b|(?:access|auth|session|api) tokens?|environment variables|seed phrase|recovery phrase|system prompt|chat history|conversation (?:history|so far)|(?:full|whole|entire) conversation|session transcript)";
const OUT =
  "(?:https?:\\/\\/|webhook|endpoint|our (?:server|service|api|backend)|(?:public )?(?:issue|gist|pull request|commit message|comment|bug report|paste)\\b|query string|(?:url|query|request) parameters?|user-agent|header|e-?mail\\b|[\\w.+-]{1,60}@[\\w-]{1,60}\\.\\w)";

export const ASKED_RULES: readonly TextRule[] = [
  {
    id: "ask-for-secrets",
    weight: "high",
    weigh: "--hhhh",
    title: "has the model hand over secrets or the conversation",
    why: "A model does what a skill says with all that it has seen.",
    fix: "take the sentence out, or do not use the skill",
    words: [
      ...["to http", "to `http", "at http", "at `http", "into http", "into `http"],
      ...["send it to", "send them to", "mail it to", "mail them to", "forward it to", "forward them to"],
      ...[
        ".ssh",
        ".aws",
        ".npmrc",
        ".env",
        "id_rsa",
        "mcp.json",
        "desktop_config",
        "printenv",
        "api key",
        "private key",
        "secret key",
        "access key",
        "ssh key",
        "passwords",
        "credentials",
        "tokens",
      ],
      ...["environment variables", "phrase", "system prompt", "chat history", "conversation", "session transcript"],
    ],
    find(text) {
      const found = HANDS_OVER(text);
      return found &&
        !/\b(?:if|whether|unless|ask(?:s|ed)?|make sure|ensure|should|rotat\w{1,3}|revok\w{1,3}|leak\w{0,3}|set up|your own|never|do not|don't|gitignore|authorization|request headers?)\b/i.test(
          text.slice(Math.max(0, found.index - 40), found.index + found.length),
        )
        ? found
        : SENDS_IT(text);
    },
  },
  {
    id: "gather-for-model",
    weight: "high",
    weigh: "--hhmh",
    title: "has the model read out files that hold keys",
    why: "What a model has read it can repeat, to whoever asks for it.",
    fix: "take the sentence out; a skill that needs a key is given one of its own",
    words: [
      ".ssh",
      ".aws",
      ".npmrc",
      ".pypirc",
      ".netrc",
      "hosts.yml",
      "mcp.json",
      "id_rsa",
      ".env",
      "desktop_config",
      "printenv",
    ],
    find: first(
      /\b(?:run|execute|start with|first)\b[^.\n]{0,40}?`[^`\n]{0,40}?\b(?:cat|head|less|base64|type|printenv)\b[^`\n]{0,80}?(?:~\/\.(?:ssh\/id_|aws\/credentials|npmrc|pypirc|netrc|config\/gh)|\.env\*)[^`\n]{0,80}`/i,
      /\b(?:read|open|load|cat)\b[^.\n]{0,30}?`?(?:~|\$HOME)\/\.(?:ssh\/id_|aws\/credentials|npmrc|pypirc|netrc|config\/gh|cursor\/mcp\.json|claude\.json|codex\/auth)[^\n]{0,60}?\b(?:pass|include|put|add|attach|embed|paste|insert|append|supply|provide|send|use)\b[^.\n]{0,20}?\b(?:its|their|the|all|full|whole|entire)?\s{0,2}(?:contents?|values?|output|it|them)\b/i,
    ),
  },
  {
    id: "paste-from-page",
    weight: "high",
    weigh: "--hhmh",
    title: "has the user run what stands on a page elsewhere, or comes in a file of unknown making",
    why: "The skill that is looked at is harmless; what the page says is not part of it.",
    fix: "do not do it; whatever is needed can stand in the skill",
    words: [
      "terminal",
      "powershell",
      "command prompt",
      "win+r",
      "run dialog",
      "command line",
      "prerequisite",
      "before using",
      "must be running",
      ...["download", "right-click", "open anyway", "clipboard", "ctrl", "the line from", ".exe", ".dmg"],
      "pass:",
      "password:",
    ],
    find: first(
      /\b(?:visit|open|go to|from|see)\b[^\n]{0,60}?https?:\/\/[^\s)`]{4,160}[^\n]{0,120}?\b(?:copy|paste)\b[^\n]{0,80}?\b(?:terminal|powershell|command prompt|command line|run dialog)\b/i,
      /\b(?:copy|paste)\b[^\n]{0,80}?\b(?:command|script|code|line|snippet)\b[^\n]{0,60}?\b(?:from|at|on)\b[^\n]{0,30}?https?:\/\/[^\n]{0,160}?\b(?:terminal|powershell|command prompt|command line|shell)\b/i,
      /\b(?:copy|paste|run|execute|take|use)\b[^.\n]{0,30}?\b(?:line|command|script|snippet|code)\b[^.\n]{0,30}?\bfrom\b[^.\n]{0,30}?https?:\/\/[^\s)\x60]{3,160}[^.\n]{0,60}?\b(?:terminal|powershell|command prompt|shell|console)\b/i,
      /\b(?:visit|open|go to)\b[^\n]{0,60}?https?:\/\/[^\s)\x60]{4,160}[^\n]{0,60}?\b(?:run|execute)\b[^.\n]{0,40}?\b(?:command|script|line)\b[^.\n]{0,20}?\b(?:in|into) (?:the |your |a )?(?:terminal|powershell|shell)\b/i,
      /\bdownload\b[^.\n]{0,60}?\.(?:dmg|exe|msi|pkg|scr|apk)\b[^\n]{0,160}?\b(?:right-click|open anyway|confirm the (?:warning|message)|ignore the|allow it|(?:mac|system|login|admin\w{0,10}) password|run as admin\w{0,10})\b/i,
      /\bpress (?:win(?:dows)?|⊞)\s?\+\s?r\b[^\n]{0,120}?\b(?:paste|enter|ctrl)\b/i,
      /https?:\/\/[^\s)`]{4,160}\.(?:exe|msi|dmg|pkg|scr|jar|apk|app\.zip|zip|rar|7z)\b[^\n]{0,120}?\b(?:run|open|launch|execute|start|install|double-click)\b[^.\n]{0,60}?\b(?:before|first|keep it|in the background|allow|right-click|open anyway)\b/i,
    ),
  },
  {
    id: "plant-code",
    weight: "high",
    weigh: "--hhmh",
    title: "has the model put code of somebody else's into everything that it writes",
    why: "It ends up in the user's work, and runs at those who use that.",
    fix: "take the sentence out",
    words: ["<script", "script tag", "script src", "import map", "one-pixel", "tracking pixel", "1x1"],
    find: first(
      /\b(?:always|every|each|all|any)\b[^\n]{0,120}?<script[^>\n]{0,40}?src=["']?(?:https?:)?\/\/(?!(?:www\.)?(?:googletagmanager|google-analytics|cdn\.jsdelivr|unpkg|cdnjs|js\.stripe|plausible|cdn\.tailwindcss)\b)[^\n]{4,160}/i,
      /<script[^>\n]{0,40}?src=["']?(?:https?:)?\/\/(?!(?:www\.)?(?:googletagmanager|google-analytics|cdn\.jsdelivr|unpkg|cdnjs|js\.stripe|plausible|cdn\.tailwindcss)\b)[^\n]{4,120}?\b(?:to|in|into) (?:every|each|all|any) (?:page|file|html|template|component|project|answer)/i,
    ),
  },
  {
    id: "self-update",
    weight: "high",
    weigh: "hhhhlh",
    title: "replaces its own instructions with what it downloads",
    why: "What was looked at is then not what is followed.",
    fix: "update it with `skillet update`, which shows what changes",
    words: ["skill.md", "agents.md", "claude.md", "/skills/", "heartbeat.md", "soul.md", ".cursorrules"],
    find: first(
      /\b(?:curl|wget|iwr|irm|Invoke-WebRequest)\b[^\n]{0,240}?(?:\s-[oO]\s{0,2}|\s>{1,2}\s{0,2}|--output[ =]|-OutFile\s{1,3}|\btee\s{1,3}(?:-a\s)?)["']?[^\s"']{0,100}(?:(?:SKILL|AGENTS|CLAUDE|GEMINI|MEMORY|SOUL|HEARTBEAT)\.md|\.cursorrules)/,
      /\b(?:download|fetch|get|pull)\b[^.\n]{0,60}?https?:\/\/[^\s)`]{4,160}[^\n]{0,80}?\b(?:replace|overwrite|save|write|update)\b[^.\n]{0,40}?(?:(?:SKILL|AGENTS|CLAUDE|GEMINI|MEMORY|SOUL)\.md|this (?:skill|file)|these instructions)/i,
      /\b(?:replace|overwrite|update)\b[^.\n]{0,40}?(?:(?:SKILL|AGENTS|CLAUDE|GEMINI|MEMORY|SOUL)\.md|this (?:skill|file)|these instructions)[^.\n]{0,60}?\b(?:with|from)\b[^.\n]{0,60}?https?:\/\//i,
    ),
  },
];

const HANDS_OVER = first(
  new RegExp(
    `\\b(?:send|posts?|upload|transmit|forward|submit|include|append|attach|embed|paste|put|add|encode|pass|report|copy)\\b[^.\\n]{0,80}?${SECRET}[^\\n]{0,80}?\\b(?:to|at|into|in|as|with|via|using)\\b[^.\\n]{0,40}?${OUT}`,
    "i",
  ),
  new RegExp(
    `\\b(?:read|open|load|cat|collect|gather|take|find|get)\\b[^.\\n]{0,40}?${SECRET}[^\\n]{0,120}?\\b(?:pass|send|post|upload|attach|append|include|submit|forward|transmit|put|add|encode)\\b[^.\\n]{0,30}?\\b(?:its|their|the|this|it|them|all|full|whole)\\b[^.\\n]{0,40}?\\b(?:to|into|in|as|with|via)\\b[^.\\n]{0,40}?(?:${OUT}|\`?--\\w|parameter|argument|note)`,
    "i",
  ),
);
const SENDS_IT = first(
  /\b(?:send|posts?|upload|transmit|forward|submit|exfiltrate|append)\b[^.\n]{0,100}?(?:\bconversation\b|chat history|system prompt|private keys?|user'?s passwords?|environment variables|\.env\b|its contents?\b)[^\n]{0,60}?\b(?:to|at|into)\s{1,2}`?https?:\/\/[^\s)`]{1,120}/i,
  /(?:~\/\.(?:ssh|aws|gnupg|netrc|npmrc|config|kube)|\.env\b|id_rsa|\b(?:API|private) keys?|passwords)[^\n]{0,160}?\b(?:send|e?mail|forward) (?:it|them)\b[^.\n]{0,20}?\bto\s{1,2}`?[\w.+-]{1,60}@[\w.-]{1,60}/i,
  /(?:~\/\.(?:ssh|aws|gnupg|netrc|npmrc|config|kube)|\.env\b|id_rsa|\bcredentials\b)[^\n]{0,100}?\b(?:send|post|upload|transmit|forward|submit)\b[^.\n]{0,80}?\bto\s{1,2}`?https?:\/\/[^\s)`]{1,120}/i,
);
