import { statSync } from "node:fs";
import { basename, dirname, isAbsolute, resolve } from "node:path";
import type { ErrorCode } from "../errors/error-codes.ts";
import { SkillError } from "../errors/problem.ts";
import { findInvisible } from "../util/untrusted-text.ts";
import { quoteSourcePath, type SourceAddress } from "./remote-source.ts";

interface ParseAddressOptions {
  cwd: string;
  home: string;
}

/**
 * Parses an address that a user typed or pasted. Throws a SkillError with its own code for each invalid form, and for
 * addresses that would make git or ssh do more than fetch.
 */
export function parseSourceAddress(text: string, { cwd, home }: ParseAddressOptions): SourceAddress {
  checkAddressText(text);
  if (isPathLike(text)) return parseLocalAddress(text, cwd, home);
  const [, scheme] = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text) ?? [];
  if (scheme !== undefined) return parseUrlAddress(text, scheme.toLowerCase());
  if (SCP_SYNTAX.test(text)) return parseScpAddress(text);
  // The meaning of a name must not depend on the content of a workspace: its author could replace a known source.
  const [shorthand = ""] = GITHUB_SHORTHAND.exec(text) ?? [];
  if (shorthand !== "" && !FILE_SUFFIX.test(shorthand)) {
    const address = parseKnownHostAddress(new URL(`https://github.com/${shorthand}`), splitAddress(text, 0));
    return isExistingPath(resolve(cwd, shorthand)) ? { ...address, namesake: `./${shorthand}` } : address;
  }
  if (isExistingPath(resolve(cwd, stripInside(text)))) return parseLocalAddress(text, cwd, home);
  throw createUnknownAddressError(text);
}

/**
 * Formats an address as text that means the same everywhere, for the lock file. `parseSourceAddress` is the inverse.
 */
export function formatSourceAddress(address: SourceAddress): string {
  if (address.kind === "site") return address.url;
  if (address.kind === "git") {
    const inside = address.inside === undefined ? "" : `//${encodeInside(address.inside)}`;
    return `${needsPathPrefix(address.url) ? "git+" : ""}${address.url}${inside}${address.ref === undefined ? "" : `#${address.ref}`}`;
  }
  const isLocal = address.kind === "folder" || isAbsolute(address.location);
  const main = address.kind === "folder" ? address.path : address.location;
  // A trailing slash marks a folder, whatever its name.
  const outer = address.kind === "folder" && FILE_SUFFIX.test(main) ? `${main}/` : main;
  if (address.inside === undefined) return outer;
  return `${outer}//${isLocal ? address.inside : encodeInside(address.inside)}`;
}

const ARCHIVE_SUFFIX = /\.(?:zip|skill|tar\.gz|tgz)$/i;
const FILE_SUFFIX = /(?:\.(?:zip|skill|tar\.gz|tgz)|\/SKILL\.md)$/i;
const WELL_KNOWN = "/.well-known/agent-skills/index.json";
const SITE_PATH = /^\/$|\/\.well-known\/agent-skills(?:\/(?:index\.json)?)?$/;
const SCP_SYNTAX = /^[^/:]+:(?!\/\/)/;
const GITHUB_SHORTHAND = /^[A-Za-z0-9][A-Za-z0-9_.-]*\/[A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*(?=$|\/\/|#)/;
const HOST_SYNTAX = /^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:.]+\])$/;
const USER_SYNTAX = /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/;
const MAX_ADDRESS_LENGTH = 2048;
/** A longer user name is probably a token. */
const MAX_USER_LENGTH = 20;

/** Throws on text that is never an address. */
function checkAddressText(text: string): void {
  if (text === "") throw createUnknownAddressError(text);
  if (text.length > MAX_ADDRESS_LENGTH)
    throw createAddressError(
      "address-too-long",
      text,
      `is longer than ${MAX_ADDRESS_LENGTH} characters`,
      ADDRESS_FORMS,
    );
  if (findInvisible(text).length > 0 || /[\t\n\r]/.test(text)) {
    throw createAddressError("address-hidden", text, "contains invisible characters", "type it again by hand");
  }
  if (text.startsWith("-")) {
    throw createAddressError(
      "address-option",
      text,
      "is an option, not an address",
      "put ./ before the name of a folder like this",
    );
  }
  // `ext::` and similar transports are programs that git would start.
  if (/^[^/]*::/.test(text)) {
    throw createAddressError(
      "address-transport",
      text,
      "names a program that git would run",
      "use the repository's https address",
    );
  }
}

function isPathLike(text: string): boolean {
  return /^(?:\.{1,2}|~)?(?:\/|$)/.test(text) || isAbsolute(text);
}

function isExistingPath(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

type ParsedGitAddress = Extract<SourceAddress, { kind: "git" }>;

/** Returns the path before `//`, with its own trailing slash if it has one. */
function stripInside(text: string): string {
  const slashes = text.indexOf("//", 1);
  return slashes === -1 ? text : text.slice(0, text[slashes + 2] === "/" ? slashes + 1 : slashes);
}

function parseLocalAddress(text: string, cwd: string, home: string): SourceAddress {
  const outer = stripInside(text);
  const inside = parseInsidePath(text.slice(outer.length));
  const path = resolve(cwd, /^~(?:\/|$)/.test(outer) ? `${home}/${outer.slice(2)}` : outer);
  const rest = inside === undefined ? {} : { inside };
  const isFolder = outer.endsWith("/") || statSync(path, { throwIfNoEntry: false })?.isDirectory();
  if (!isFolder && ARCHIVE_SUFFIX.test(path)) return { kind: "archive", location: path, ...rest };
  const folder = !isFolder && basename(path).toUpperCase() === "SKILL.MD" ? dirname(path) : path;
  // Two slashes after the root would belong to the root.
  if (folder === "/" && inside !== undefined) return { kind: "folder", path: `/${inside}` };
  return { kind: "folder", path: folder, ...rest };
}

/** Parsers by scheme. `git+` before any of them marks a repository. */
const SCHEME_PARSERS: Readonly<Record<string, (url: URL, parts: AddressParts, isGit: boolean) => SourceAddress>> = {
  https: parseWebAddress,
  http(url, parts, isGit) {
    if (LOOPBACK_PATTERN.test(url.hostname)) return parseWebAddress(url, parts, isGit);
    throw createAddressError(
      "address-insecure",
      url.href,
      "is not encrypted and can be changed on the way",
      "use https",
    );
  },
  ssh(url, parts) {
    if (!HOST_SYNTAX.test(url.hostname) || url.pathname.length < 2 || /^\/~?-/.test(url.pathname))
      throw createHostError(url.href);
    return createGitAddress(formatPlainUrl(url), parts);
  },
  file(url, parts, isGit) {
    if (url.host !== "") {
      throw createAddressError(
        "address-host",
        url.href,
        "names a host, but files are on this machine",
        "write file:///path",
      );
    }
    if (url.pathname.length < 2) throw createUnknownAddressError(url.href);
    if (isGit || !ARCHIVE_SUFFIX.test(url.pathname)) return createGitAddress(formatPlainUrl(url), parts);
    const path = decodePart(url.pathname);
    checkAddressText(path);
    return createArchiveAddress(resolve("/", path), parts);
  },
};

function parseUrlAddress(text: string, typedScheme: string): SourceAddress {
  const isGit = typedScheme.startsWith("git+");
  const scheme = isGit ? typedScheme.slice(4) : typedScheme;
  const read = Object.hasOwn(SCHEME_PARSERS, scheme) ? SCHEME_PARSERS[scheme] : undefined;
  if (!read) {
    throw createAddressError(
      "address-scheme",
      text,
      `starts with ${scheme}://, which is not supported`,
      "use https, ssh or file",
    );
  }
  const rest = text.slice(typedScheme.length + 3);
  const { main, ...parts } = splitAddress(rest, 1);
  let url: URL;
  try {
    url = new URL(`${scheme}://${main}`);
  } catch {
    throw createHostError(text);
  }
  url.pathname = url.pathname.replace(/\/{2,}/g, "/");
  checkUser(url, scheme);
  checkQuery(url);
  return read(url, { main, ...parts }, isGit);
}

/** Rejects credentials: the address is written to a lock file, which others read. */
function checkUser(url: URL, scheme: string): void {
  const user = url.username;
  if (url.password !== "" || (scheme !== "ssh" && user.length > MAX_USER_LENGTH)) {
    throw new SkillError("address-secret", {
      message: `The address of ${quoteSourcePath(url.host)} contains a password or a token, which would be written to skills.lock`,
      fix: "remove it: git uses its credential helper; or use an ssh address",
    });
  }
  if (user !== "" && !USER_SYNTAX.test(user)) throw createHostError(url.host);
}

/**
 * Rejects a query, which often contains credentials. The query of a repository page only selects what the page shows.
 */
function checkQuery(url: URL): void {
  if (url.search !== "" && !Object.hasOwn(KNOWN_GIT_HOSTS, url.hostname)) {
    throw new SkillError("address-secret", {
      message: `The address of ${quoteSourcePath(url.host)} has a query, which would be written to skills.lock`,
      fix: "remove the query, or download the archive and add the file",
    });
  }
  url.search = "";
}

function parseWebAddress(url: URL, parts: AddressParts, isGit: boolean): SourceAddress {
  if (!isGit && ARCHIVE_SUFFIX.test(url.pathname)) return createArchiveAddress(formatPlainUrl(url), parts);
  if (Object.hasOwn(KNOWN_GIT_HOSTS, url.hostname)) return parseKnownHostAddress(url, parts);
  if (!isGit && SITE_PATH.test(url.pathname)) return createSiteAddress(url, parts);
  return createGitAddress(formatPlainUrl(url), parts);
}

function createSiteAddress(url: URL, { inside, ref }: AddressParts): SourceAddress {
  if (inside !== undefined || ref !== undefined) {
    throw createAddressError(
      "address-part",
      url.href,
      "is a site, which has neither branches nor folders",
      "name skills instead",
    );
  }
  url.pathname = url.pathname.replace(SITE_PATH, WELL_KNOWN);
  return { kind: "site", url: url.href };
}

function createArchiveAddress(location: string, { inside, ref }: AddressParts): SourceAddress {
  if (ref !== undefined) {
    throw createAddressError("address-part", location, "is an archive, which has no branches", "remove the # part");
  }
  return { kind: "archive", location, ...(inside === undefined ? {} : { inside }) };
}

/** Parses the address of a repository page on a known host, as people copy it. */
function parseKnownHostAddress(url: URL, parts: AddressParts): ParsedGitAddress {
  const path = url.pathname.replace(/\/+$/, "");
  for (const { pattern, isFile } of KNOWN_GIT_HOSTS[url.hostname] ?? []) {
    const { repository = "", ref, inside } = pattern.exec(path)?.groups ?? {};
    const main = repository.replace(/(?:\.git)+$/, "");
    if (main === "" || /\/\.{0,2}$/.test(main)) continue;
    const location = inside === undefined ? undefined : decodePart(inside);
    return createGitAddress(`${url.origin}${main}`, {
      ref: parts.ref ?? (ref === undefined ? undefined : parseGitRef(decodePart(ref))),
      inside:
        parts.inside ?? (location === undefined ? undefined : parseInsidePath(isFile ? dirname(location) : location)),
    });
  }
  throw createAddressError(
    "address-incomplete",
    url.href,
    "names no repository",
    `write ${url.origin}/owner/repository`,
  );
}

function parseScpAddress(text: string): SourceAddress {
  const colon = text.indexOf(":");
  const { main, ...parts } = splitAddress(text, colon + 1);
  const [who = "", path = ""] = [main.slice(0, colon), main.slice(colon + 1)];
  const [user = "", host = "", ...more] = who.split("@");
  const isFine =
    USER_SYNTAX.test(user) && HOST_SYNTAX.test(host) && more.length === 0 && /^[^-\s?\\][^\s?\\]*$/.test(path);
  if (!isFine) throw createUnknownAddressError(text);
  return createGitAddress(main.replace(/(?<=[^:/])\/+$/, ""), parts);
}

function createGitAddress(url: string, { ref, inside }: Omit<AddressParts, "main">): ParsedGitAddress {
  return { kind: "git", url, ...(ref === undefined ? {} : { ref }), ...(inside === undefined ? {} : { inside }) };
}

/** Formats a URL without a trailing slash, which has no meaning. */
function formatPlainUrl(url: URL): string {
  return url.pathname === "/" ? url.href : url.href.replace(/\/$/, "");
}

/** Returns true if the address of a repository would be parsed as another kind. */
function needsPathPrefix(text: string): boolean {
  const [, scheme] = /^(https?|file):\/\//.exec(text) ?? [];
  if (scheme === undefined) return false;
  const { pathname, hostname } = new URL(text);
  return (
    ARCHIVE_SUFFIX.test(pathname) ||
    (scheme !== "file" && SITE_PATH.test(pathname) && !Object.hasOwn(KNOWN_GIT_HOSTS, hostname))
  );
}

const ADDRESS_FORMS =
  "use a folder, an archive (.zip, .skill, .tar.gz, .tgz), owner/repository, or an https, ssh or file address; #ref and //folder may follow";

function createUnknownAddressError(text: string): SkillError {
  const what = text === "" ? "An empty text" : quoteSourcePath(text);
  return new SkillError("address-unknown", {
    message: `${what} is not a source of skills`,
    fix: ADDRESS_FORMS,
  });
}

function createHostError(text: string): SkillError {
  return createAddressError("address-host", text, "has no valid host", ADDRESS_FORMS);
}

/** The parts of any address. */
interface AddressParts {
  main: string;
  inside?: string | undefined;
  ref?: string | undefined;
}

/** Splits `main//inside#ref` or `main#ref//inside`; ignores two slashes before `from`. */
function splitAddress(text: string, from: number): AddressParts {
  const hash = text.indexOf("#");
  const before = hash === -1 ? text : text.slice(0, hash);
  const after = hash === -1 ? undefined : text.slice(hash + 1);
  const slashes = before.indexOf("//", from);
  const afterSlashes = after?.indexOf("//") ?? -1;
  const folder =
    slashes !== -1 ? before.slice(slashes + 2) : afterSlashes !== -1 ? after?.slice(afterSlashes + 2) : undefined;
  const ref = slashes === -1 && afterSlashes !== -1 ? after?.slice(0, afterSlashes) : after;
  return {
    main: slashes === -1 ? before : before.slice(0, slashes),
    inside: folder === undefined ? undefined : parseInsidePath(decodePart(folder)),
    ref: ref === undefined ? undefined : parseGitRef(ref),
  };
}

function decodePart(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw createAddressError("address-subfolder", text, "has a % without a number", "write %25 for a % in a name");
  }
}

/** Encodes characters with a meaning in an address. */
function encodeInside(inside: string): string {
  return inside.replace(/[%#? ]/g, encodeURIComponent);
}

function parseInsidePath(text: string): string | undefined {
  const parts = text.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..") || /\\/.test(text) || findInvisible(text).length > 0 || /[\t\n\r]/.test(text)) {
    throw createAddressError(
      "address-subfolder",
      text,
      "is not a folder inside a source",
      "use the path of the folder from the root of the source",
    );
  }
  return parts.length === 0 ? undefined : parts.join("/");
}

/**
 * Validates a branch, tag or commit like `git check-ref-format`, without any refspec or revision syntax. Throws a
 * SkillError.
 */
export function parseGitRef(ref: string): string {
  const isBad =
    !/^[^\s\x00-\x20\x7f~^:?*[\\]+$/.test(ref) ||
    /^[-/.]|\.\.|@\{|\/\/|\/\.|\.lock(?:\/|$)|[/.]$|^@$/.test(ref) ||
    ref.length > 255;
  if (isBad)
    throw createAddressError("address-ref", ref, "is not a branch, tag or commit", "write it as in ADDRESS#main");
  return ref;
}

function createAddressError(code: ErrorCode, text: string, why: string, fix: string): SkillError {
  return new SkillError(code, { message: `${quoteSourcePath(text)} ${why}`, fix });
}

/** A page of a repository host: which part of its path is the repository, and which the path inside it. */
interface HostPagePattern {
  pattern: RegExp;
  /** True if the path is a file: its folder is used then. */
  isFile?: boolean;
}

/** Names of this machine, which needs no https. */
export const LOOPBACK_PATTERN = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

/** Returns true if a redirect stays on the same host. */
export function isSameHost(from: URL, to: URL): boolean {
  return to.origin === from.origin || (to.protocol === "https:" && to.hostname === from.hostname);
}

const REPOSITORY_PATTERN = "^(?<repository>/[^/]+/[^/]+)";
const REF_PATTERN = "/(?<ref>[^/]+)(?:/(?<inside>.+))?$";

/**
 * Pages whose addresses people copy, by host. A branch with a slash in its name looks like a folder: use `#ref` for it.
 */
const KNOWN_GIT_HOSTS: Readonly<Record<string, readonly HostPagePattern[]>> = {
  "github.com": [
    createPagePattern(`${REPOSITORY_PATTERN}$`),
    createPagePattern(`${REPOSITORY_PATTERN}/tree${REF_PATTERN}`),
    createFilePattern(`${REPOSITORY_PATTERN}/blob${REF_PATTERN}`),
  ],
  "gitlab.com": [
    createPagePattern(`^(?<repository>/.+?)/-/tree${REF_PATTERN}`),
    createFilePattern(`^(?<repository>/.+?)/-/blob${REF_PATTERN}`),
    createPagePattern("^(?<repository>/[^/]+(?:/(?!-$|-/)[^/]+)+)$"),
  ],
  "bitbucket.org": [
    createPagePattern(`${REPOSITORY_PATTERN}$`),
    createPagePattern(`${REPOSITORY_PATTERN}/src${REF_PATTERN}`),
  ],
  "codeberg.org": [
    createPagePattern(`${REPOSITORY_PATTERN}$`),
    createPagePattern(`${REPOSITORY_PATTERN}/src/(?:branch|tag|commit)${REF_PATTERN}`),
  ],
};

function createPagePattern(pattern: string): HostPagePattern {
  return { pattern: new RegExp(pattern) };
}

function createFilePattern(pattern: string): HostPagePattern {
  return { pattern: new RegExp(pattern), isFile: true };
}
