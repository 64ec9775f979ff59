/** A page of a host of repositories: what of its path is the repository, and what the place in it. */
export interface PastedPage {
  pattern: RegExp;
  /** Whether the place is a file: then its folder is meant. */
  isFile?: boolean;
}

/** Names of this very machine: what comes from there needs no https. */
export const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

/** Whether who is sent on by a server stays with it. */
export function staysAt(from: URL, to: URL): boolean {
  return to.origin === from.origin || (to.protocol === "https:" && to.hostname === from.hostname);
}

const OWNED = "^(?<repository>/[^/]+/[^/]+)";
const PLACE = "/(?<ref>[^/]+)(?:/(?<inside>.+))?$";

/** By host, the pages whose addresses people copy. A branch with a slash in its name cannot be told from a folder: `#ref` says it. */
export const KNOWN_HOSTS: Readonly<Record<string, readonly PastedPage[]>> = {
  "github.com": [page(`${OWNED}$`), page(`${OWNED}/tree${PLACE}`), file(`${OWNED}/blob${PLACE}`)],
  "gitlab.com": [
    page(`^(?<repository>/.+?)/-/tree${PLACE}`),
    file(`^(?<repository>/.+?)/-/blob${PLACE}`),
    page("^(?<repository>/[^/]+(?:/(?!-$|-/)[^/]+)+)$"),
  ],
  "bitbucket.org": [page(`${OWNED}$`), page(`${OWNED}/src${PLACE}`)],
  "codeberg.org": [page(`${OWNED}$`), page(`${OWNED}/src/(?:branch|tag|commit)${PLACE}`)],
};

function page(pattern: string): PastedPage {
  return { pattern: new RegExp(pattern) };
}

function file(pattern: string): PastedPage {
  return { pattern: new RegExp(pattern), isFile: true };
}
