import { statSync } from "node:fs";
import { basename, dirname, isAbsolute, resolve } from "node:path";
import { SkillError } from "../shared/error.ts";
import { findHidden } from "../shared/hidden.ts";
import { KNOWN_HOSTS, LOOPBACK } from "./address-hosts.ts";
import { decoded, encodeInside, judgedInside, judgedRef, type Parts, partsOf, wrong } from "./address-parts.ts";
import type { Address } from "./contract.ts";
import { shown } from "./refusal.ts";

export interface AddressOptions {
  cwd: string;
  home: string;
}

/**
 * Reads what somebody typed or pasted. Throws a SkillError with a code of its own for each thing that cannot be meant, or that would
 * make git or ssh do something else than fetch.
 */
export function parseAddress(text: string, { cwd, home }: AddressOptions): Address {
  judgeText(text);
  if (isPath(text)) return localAddress(text, cwd, home);
  const [, scheme] = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text) ?? [];
  if (scheme !== undefined) return urlAddress(text, scheme.toLowerCase());
  if (SCP.test(text)) return scpAddress(text);
  // What a name means may not depend on what lies in a workspace: whoever wrote that could stand in for a source that is known.
  const [shorthand = ""] = SHORTHAND.exec(text) ?? [];
  if (shorthand !== "" && !LIKE_A_FILE.test(shorthand)) {
    const address = knownAddress(new URL(`https://github.com/${shorthand}`), partsOf(text, 0));
    return isThere(resolve(cwd, shorthand)) ? { ...address, namesake: `./${shorthand}` } : address;
  }
  if (isThere(resolve(cwd, outerOf(text)))) return localAddress(text, cwd, home);
  throw unknown(text);
}

/** The address as a text that says the same from everywhere: what is written into a lock. `parseAddress` gives the address back. */
export function sayAddress(address: Address): string {
  if (address.kind === "site") return address.url;
  if (address.kind === "git") {
    const inside = address.inside === undefined ? "" : `//${encodeInside(address.inside)}`;
    return `${needsPrefix(address.url) ? "git+" : ""}${address.url}${inside}${address.ref === undefined ? "" : `#${address.ref}`}`;
  }
  const isLocal = address.kind === "folder" || isAbsolute(address.location);
  const main = address.kind === "folder" ? address.path : address.location;
  // A slash at its end says that it is a folder, whatever it is called.
  const outer = address.kind === "folder" && LIKE_A_FILE.test(main) ? `${main}/` : main;
  if (address.inside === undefined) return outer;
  return `${outer}//${isLocal ? address.inside : encodeInside(address.inside)}`;
}

const ARCHIVE = /\.(?:zip|skill|tar\.gz|tgz)$/i;
const LIKE_A_FILE = /(?:\.(?:zip|skill|tar\.gz|tgz)|\/SKILL\.md)$/i;
const WELL_KNOWN = "/.well-known/agent-skills/index.json";
const SITE = /^\/$|\/\.well-known\/agent-skills(?:\/(?:index\.json)?)?$/;
const SCP = /^[^/:]+:(?!\/\/)/;
const SHORTHAND = /^[A-Za-z0-9][A-Za-z0-9_.-]*\/[A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*(?=$|\/\/|#)/;
const HOST = /^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:.]+\])$/;
const USER = /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/;
const LONGEST = 2048;
/** Whoever has a name of more letters has put a token in its place. */
const LONGEST_USER = 20;

/** What can be said of any text. */
function judgeText(text: string): void {
  if (text === "") throw unknown(text);
  if (text.length > LONGEST) throw wrong("address-long", text, `is longer than ${LONGEST} characters`, FORMS);
  if (findHidden(text).length > 0 || /[\t\n\r]/.test(text)) {
    throw wrong("address-hidden", text, "holds characters that nobody sees", "type it again by hand");
  }
  if (text.startsWith("-")) {
    throw wrong("address-option", text, "is an option and no address", "put ./ before the name of a folder like this");
  }
  // `ext::` and its like are programs that git would start.
  if (/^[^/]*::/.test(text)) {
    throw wrong("address-transport", text, "names a program that git would run", "give the repository's https address");
  }
}

function isPath(text: string): boolean {
  return /^(?:\.{1,2}|~)?(?:\/|$)/.test(text) || isAbsolute(text);
}

function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

type GitAddress = Extract<Address, { kind: "git" }>;

/** The path that stands before `//`, with its own slash if it has one. */
function outerOf(text: string): string {
  const slashes = text.indexOf("//", 1);
  return slashes === -1 ? text : text.slice(0, text[slashes + 2] === "/" ? slashes + 1 : slashes);
}

function localAddress(text: string, cwd: string, home: string): Address {
  const outer = outerOf(text);
  const inside = judgedInside(text.slice(outer.length));
  const path = resolve(cwd, /^~(?:\/|$)/.test(outer) ? `${home}/${outer.slice(2)}` : outer);
  const rest = inside === undefined ? {} : { inside };
  const isFolder = outer.endsWith("/") || statSync(path, { throwIfNoEntry: false })?.isDirectory();
  if (!isFolder && ARCHIVE.test(path)) return { kind: "archive", location: path, ...rest };
  const folder = !isFolder && basename(path).toUpperCase() === "SKILL.MD" ? dirname(path) : path;
  // Two slashes after the root would be its own.
  if (folder === "/" && inside !== undefined) return { kind: "folder", path: `/${inside}` };
  return { kind: "folder", path: folder, ...rest };
}

/** What a scheme may be, and what becomes of it. `git+` before any of them says that it is a repository. */
const SCHEMES: Readonly<Record<string, (url: URL, parts: Parts, isGit: boolean) => Address>> = {
  https: webAddress,
  http(url, parts, isGit) {
    if (LOOPBACK.test(url.hostname)) return webAddress(url, parts, isGit);
    throw wrong("address-insecure", url.href, "can be changed by anybody on the way", "use https");
  },
  ssh(url, parts) {
    if (!HOST.test(url.hostname) || url.pathname.length < 2 || /^\/~?-/.test(url.pathname)) throw oddHost(url.href);
    return gitAddress(plainUrl(url), parts);
  },
  file(url, parts, isGit) {
    if (url.host !== "") {
      throw wrong("address-host", url.href, "names a host, and files are on this machine", "write file:///path");
    }
    if (url.pathname.length < 2) throw unknown(url.href);
    if (isGit || !ARCHIVE.test(url.pathname)) return gitAddress(plainUrl(url), parts);
    const path = decoded(url.pathname);
    judgeText(path);
    return archiveAddress(resolve("/", path), parts);
  },
};

function urlAddress(text: string, typedScheme: string): Address {
  const isGit = typedScheme.startsWith("git+");
  const scheme = isGit ? typedScheme.slice(4) : typedScheme;
  const read = Object.hasOwn(SCHEMES, scheme) ? SCHEMES[scheme] : undefined;
  if (!read) {
    throw wrong(
      "address-scheme",
      text,
      `starts with ${scheme}://, which is not fetched from`,
      "use https, ssh or file",
    );
  }
  const rest = text.slice(typedScheme.length + 3);
  const { main, ...parts } = partsOf(rest, 1);
  let url: URL;
  try {
    url = new URL(`${scheme}://${main}`);
  } catch {
    throw oddHost(text);
  }
  url.pathname = url.pathname.replace(/\/{2,}/g, "/");
  judgeUser(url, scheme);
  judgeQuery(url);
  return read(url, { main, ...parts }, isGit);
}

/** Who may be named in an address that is written into a lock, for all to read. */
function judgeUser(url: URL, scheme: string): void {
  const user = url.username;
  if (url.password !== "" || (scheme !== "ssh" && user.length > LONGEST_USER)) {
    throw new SkillError("address-secret", {
      message: `The address of ${shown(url.host)} holds a password or a token, and would be written into skills.lock`,
      fix: "leave it out: git asks its credential helper, or use an ssh address",
    });
  }
  if (user !== "" && !USER.test(user)) throw oddHost(url.host);
}

/** Who may fetch something is often said in a query. Those of pages of repositories say only what the page shows. */
function judgeQuery(url: URL): void {
  if (url.search !== "" && !Object.hasOwn(KNOWN_HOSTS, url.hostname)) {
    throw new SkillError("address-secret", {
      message: `The address of ${shown(url.host)} goes on with a query, which would be written into skills.lock`,
      fix: "leave out what follows the question mark, or download the archive and add that",
    });
  }
  url.search = "";
}

function webAddress(url: URL, parts: Parts, isGit: boolean): Address {
  if (!isGit && ARCHIVE.test(url.pathname)) return archiveAddress(plainUrl(url), parts);
  if (Object.hasOwn(KNOWN_HOSTS, url.hostname)) return knownAddress(url, parts);
  if (!isGit && SITE.test(url.pathname)) return siteAddress(url, parts);
  return gitAddress(plainUrl(url), parts);
}

function siteAddress(url: URL, { inside, ref }: Parts): Address {
  if (inside !== undefined || ref !== undefined) {
    throw wrong("address-part", url.href, "is a site, which has neither branches nor folders", "name skills instead");
  }
  url.pathname = url.pathname.replace(SITE, WELL_KNOWN);
  return { kind: "site", url: url.href };
}

function archiveAddress(location: string, { inside, ref }: Parts): Address {
  if (ref !== undefined) {
    throw wrong("address-part", location, "is an archive, which has no branches", "leave out what follows the #");
  }
  return { kind: "archive", location, ...(inside === undefined ? {} : { inside }) };
}

/** A repository of a host whose pages are known, as people copy their addresses. */
function knownAddress(url: URL, parts: Parts): GitAddress {
  const path = url.pathname.replace(/\/+$/, "");
  for (const { pattern, isFile } of KNOWN_HOSTS[url.hostname] ?? []) {
    const { repository = "", ref, inside } = pattern.exec(path)?.groups ?? {};
    const main = repository.replace(/(?:\.git)+$/, "");
    if (main === "" || /\/\.{0,2}$/.test(main)) continue;
    const place = inside === undefined ? undefined : decoded(inside);
    return gitAddress(`${url.origin}${main}`, {
      ref: parts.ref ?? (ref === undefined ? undefined : judgedRef(decoded(ref))),
      inside: parts.inside ?? (place === undefined ? undefined : judgedInside(isFile ? dirname(place) : place)),
    });
  }
  throw wrong("address-incomplete", url.href, "names no repository", `write ${url.origin}/owner/repository`);
}

function scpAddress(text: string): Address {
  const colon = text.indexOf(":");
  const { main, ...parts } = partsOf(text, colon + 1);
  const [who = "", path = ""] = [main.slice(0, colon), main.slice(colon + 1)];
  const [user = "", host = "", ...more] = who.split("@");
  const isFine = USER.test(user) && HOST.test(host) && more.length === 0 && /^[^-\s?\\][^\s?\\]*$/.test(path);
  if (!isFine) throw unknown(text);
  return gitAddress(main.replace(/(?<=[^:/])\/+$/, ""), parts);
}

function gitAddress(url: string, { ref, inside }: Omit<Parts, "main">): GitAddress {
  return { kind: "git", url, ...(ref === undefined ? {} : { ref }), ...(inside === undefined ? {} : { inside }) };
}

/** Without a slash at its end, which says nothing. */
function plainUrl(url: URL): string {
  return url.pathname === "/" ? url.href : url.href.replace(/\/$/, "");
}

/** Whether an address of a repository would be taken for something else. */
function needsPrefix(text: string): boolean {
  const [, scheme] = /^(https?|file):\/\//.exec(text) ?? [];
  if (scheme === undefined) return false;
  const { pathname, hostname } = new URL(text);
  return ARCHIVE.test(pathname) || (scheme !== "file" && SITE.test(pathname) && !Object.hasOwn(KNOWN_HOSTS, hostname));
}

const FORMS =
  "give a folder, an archive (.zip, .skill, .tar.gz, .tgz), owner/repository, or an https, ssh or file address; #ref and //folder may follow";

function unknown(text: string): SkillError {
  const what = text === "" ? "An empty text" : shown(text);
  return new SkillError("address-unknown", { message: `${what} is no place that skills come from`, fix: FORMS });
}

function oddHost(text: string): SkillError {
  return wrong("address-host", text, "names no host that can be asked", FORMS);
}
