import { type Found, first, type TextRule } from "../rule.ts";
import {
  ENVIRONMENT,
  ENVIRONMENT_WORDS,
  FOLDERS,
  IDENTITY,
  isTalk,
  KEYS,
  PATH_WORDS,
  READERS,
  SENDS,
  SETTING_WORDS,
  SETTINGS,
  STORES,
  TAKEN,
} from "./keys.ts";

function secretIn(text: string): Found | undefined {
  const own = text.replace(IDENTITY, (used) => " ".repeat(used.length));
  const key = KEYS.exec(own) ?? FOLDERS.exec(own);
  if (key) return { index: key.index, length: key[0].length };
  const settings = SETTINGS.exec(own);
  if (settings && TAKEN.test(own.slice(Math.max(0, settings.index - 80), settings.index + 2)))
    return { index: settings.index, length: settings[0].length };
  const environment = ENVIRONMENT.exec(own);
  return environment ? { index: environment.index, length: environment[0].length } : undefined;
}

export const SECRET_RULES: readonly TextRule[] = [
  {
    id: "send-secrets",
    weight: "high",
    weigh: "hhhhlh",
    title: "sends keys, credentials or the environment to somewhere",
    why: "Whoever receives them can do what the user can do.",
    fix: "do not use it unless you know the receiver and why it needs them",
    words: [...PATH_WORDS, ...SETTING_WORDS, ...ENVIRONMENT_WORDS, "169.254.169.254"],
    find(text) {
      const secret = secretIn(text);
      return secret && SENDS.test(text.replace(IDENTITY, "")) ? secret : undefined;
    },
  },
  {
    id: "send-passwords",
    weight: "high",
    weigh: "hhllll",
    title: "sends a list of passwords",
    why: "Whoever receives it can sign in everywhere.",
    fix: "do not use it; compare passwords on this machine",
    words: ["password"],
    find: first(
      /\b(?:json|data|body|params)\s?[=:]\s?[^\n]{0,100}?\[["']password["']\][^\n]{0,60}?\bfor\s{1,3}\w{1,20}\s{1,3}in\b|\b(?:rows|entries|logins|accounts|items)\.map\([^\n]{0,80}?\.password\b[^\n]{0,80}?(?:fetch|post|body)/,
    ),
  },
  {
    id: "credential-read",
    weight: "medium",
    weigh: "mml---",
    title: "reads a file that holds keys or passwords",
    why: "A skill that needs access gets a key of its own; it has no business in those of others.",
    fix: "ask what it needs the file for; give it a key of its own in place of it",
    words: PATH_WORDS,
    find(text) {
      const own = text.replace(IDENTITY, (used) => " ".repeat(used.length));
      const key = KEYS.exec(own);
      return key && (READERS.test(own) || STORES.test(key[0])) && !isTalk(own, key.index)
        ? { index: key.index, length: key[0].length }
        : undefined;
    },
  },
  {
    id: "credential-folder",
    weight: "medium",
    weigh: "mml---",
    title: "packs up or copies a folder of keys",
    why: "It is then somewhere else, where nobody looks after it.",
    fix: "ask what it needs the folder for",
    words: [
      "id_rsa",
      "*.pem",
      "*.key",
      "*.kdbx",
      "/.ssh",
      "/.aws",
      "/.gnupg",
      "/.kube",
      "/.password-store",
      "/.mozilla",
    ],
    find: first(
      /(?:\b(?:tar|zip|7z)\s[^\n;|]{0,160}?|\bcp\s{1,3}-\w{0,4}[ra]\w{0,4}\s{1,3}["']?)(?:~|\$\{?HOME\}?|\/root|\/home\/\w{1,32})\/\.(?:ssh|aws|gnupg|kube|password-store|mozilla)\/?(?=[\s"']|$)/,
      /\bfind\s[^\n|]{0,160}?(?:id_rsa|\*\.pem|\*\.key|\*\.kdbx)[^\n]{0,80}?(?:\bxargs\b|-exec\b)[^\n]{0,20}?\b(?:tar|zip|cp|cat|curl|scp|mv|base64)\b/,
    ),
  },
  {
    id: "keychain-read",
    weight: "medium",
    weigh: "mml---",
    title: "takes passwords out of the system's keychain",
    why: "All programs of the user keep theirs there.",
    fix: "ask which entry it needs, and why",
    words: [
      "dump-keychain",
      "find-generic-password",
      "find-internet-password",
      "secret-tool",
      "cryptunprotectdata",
      "vaultcmd",
      "mimikatz",
      ...["git credential", "docker-credential", "aws configure get", "export-secret-key"],
    ],
    find: first(
      /\bgit\s{1,3}credential(?:-\w{1,20})?\s{1,3}(?:fill|get)\b|\bdocker-credential-\w{1,20}\s{1,3}get\b|\baws configure get \w{0,20}secret|--export-secret-keys?\b/,
      /\bsecurity\s{1,3}(?:dump-keychain|find-(?:generic|internet)-password[^\n]{0,60}?(?:Chrome|Safari|Firefox|Brave|login))[^\n]{0,80}|secret-tool\s{1,3}search\s{1,3}--all|CryptUnprotectData|\bmimikatz\b|vaultcmd\s{1,3}\/list/i,
    ),
  },
  {
    id: "settings-read",
    weight: "medium",
    weigh: "ml----",
    title: "reads a file of settings for the tokens in it",
    why: "Tokens of package registries and clusters let others publish and deploy in the user's name.",
    fix: "ask what it needs the file for",
    words: SETTING_WORDS,
    find: first(
      /\b(?:cat|grep|awk|sed|tee|cp|base64|open|readfile(?:sync)?|get-content)\b[^\n|;]{0,80}?(?:~|\$\{?HOME\}?|\/root|\/home\/\w{1,32})\/\.(?:npmrc|pypirc|docker\/config\.json|kube\/config|config\/gh\/hosts\.yml|(?:bash|zsh)_history)\b/i,
    ),
  },
  {
    id: "credential-path",
    weight: "low",
    weigh: "llllll",
    title: "names a place where keys or passwords are kept",
    why: "Often for good reasons; look what it does there.",
    fix: "read the lines around it",
    words: PATH_WORDS,
    find(text) {
      const found = KEYS.exec(text) ?? FOLDERS.exec(text);
      return found ? { index: found.index, length: found[0].length } : undefined;
    },
    heedsMentions: false,
  },
  {
    id: "cloud-metadata",
    weight: "medium",
    weigh: "mmllll",
    title: "asks a cloud machine for its credentials",
    why: "What is answered there gives access to the account that the machine runs in.",
    fix: "use the provider's own tools with a role of its own",
    words: [
      "169.254.1",
      "metadata.google.internal",
      "security-credentials",
      "100.100.100.200",
      "container_credentials",
      "computemetadata",
      "identity/oauth2",
    ],
    find: first(
      /\biam\/security-credentials\b|computeMetadata\/v1\/[^\s"'`]{0,80}\/(?:token|identity|ssh-keys)\b|metadata\/identity\/oauth2\/token|(?:169\.254\.170\.2|100\.100\.100\.200)[^\n]{0,80}?(?:CREDENTIALS|ram\/security)|AWS_CONTAINER_CREDENTIALS_(?:RELATIVE|FULL)_URI[^\n]{0,60}?(?:curl|urlopen|fetch|requests)|(?:curl|urlopen|fetch|requests)[^\n]{0,80}?AWS_CONTAINER_CREDENTIALS/,
      /(?:169\.254\.169\.254|metadata\.google\.internal|169\.254\.170\.2)[^\s"'`]{0,120}?(?:security-credentials|service-accounts\/[\w@.-]{1,60}\/token|identity\/oauth2\/token|user-data)/i,
    ),
  },
];
