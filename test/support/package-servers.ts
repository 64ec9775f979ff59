import { createHash } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { type TarEntry, tarOf, zipOf } from "./archives.ts";

/** A package that a test's own index or registry serves. */
export interface ServedPackage {
  name: string;
  version: string;
  files: Record<string, string>;
  /** Python: lines of `Requires-Dist`. */
  requires?: readonly string[];
  /** Python: lines of console scripts. */
  programs?: readonly string[];
  /** Python: it exists only as source, which has to be built. */
  isSource?: boolean;
  /** The address that the list of its versions names for its file. Defaults to one of the same server. */
  fileAt?: string;
  /** npm: keys of its package.json besides name and version. */
  manifest?: Record<string, unknown>;
  /** npm: further entries of its tarball. */
  entries?: readonly TarEntry[];
}

export interface PackageServer {
  url: string;
  /** The requested paths. */
  asked: string[];
  /** Redirects: addresses that replace a file at a path. */
  redirects: Map<string, string>;
  /** The value of `Authorization` that each request needs. Defaults to none. */
  authorization: string | undefined;
  /** The packages served from now on. */
  serve(...packages: ServedPackage[]): void;
  close(): void;
}

/** An index of wheels on loopback, as pip and uv read it. */
export async function pythonIndex(...served: ServedPackage[]): Promise<PackageServer> {
  return startPythonIndex("127.0.0.1", served);
}

export async function startPythonIndex(host: string, served: readonly ServedPackage[]): Promise<PackageServer> {
  return startServer(host, served, "/simple/", (packages, path) => {
    const [, name = "", file = ""] = /^\/simple\/([^/]+)\/(.*)$/.exec(path) ?? [];
    const found = packages.filter((one) => one.name === name);
    if (found.length === 0) return undefined;
    if (file === "") {
      const links = found.map((one) => {
        const hash = createHash("sha256").update(fileOf(one)).digest("hex");
        return `<a href="${one.fileAt ?? fileName(one)}#sha256=${hash}">${fileName(one)}</a>`;
      });
      return { type: "text/html", body: `<!DOCTYPE html><html><body>${links.join("\n")}</body></html>` };
    }
    const wanted = found.find((one) => fileName(one) === file);
    return wanted && { type: "application/octet-stream", body: fileOf(wanted) };
  });
}

/** A registry of npm packages on loopback. */
export async function npmRegistry(...served: ServedPackage[]): Promise<PackageServer> {
  return startNpmRegistry("127.0.0.1", served);
}

export async function startNpmRegistry(host: string, served: readonly ServedPackage[]): Promise<PackageServer> {
  return startServer(host, served, "/", (packages, path, url) => {
    const [, name = "", version] = /^\/([^/]+)(?:\/-\/[^/]+-(\d[^/]*)\.tgz)?$/.exec(path) ?? [];
    const found = packages.filter((one) => one.name === name);
    const last = found.at(-1);
    if (!last) return undefined;
    const wanted = found.find((one) => one.version === version);
    if (version !== undefined) return wanted && { type: "application/octet-stream", body: tarballOf(wanted) };
    const versions = found.map((one) => {
      const integrity = `sha512-${createHash("sha512").update(tarballOf(one)).digest("base64")}`;
      const dist = { tarball: one.fileAt ?? `${url}${name}/-/${name}-${one.version}.tgz`, integrity };
      return [one.version, { name, version: one.version, ...one.manifest, dist }];
    });
    const body = { name, "dist-tags": { latest: last.version }, versions: Object.fromEntries(versions) };
    return { type: "application/json", body: JSON.stringify(body) };
  });
}

export function wheelOf({ name, version, files, requires = [], programs = [] }: ServedPackage): Buffer {
  const folder = `${name}-${version}.dist-info`;
  const metadata = [`Metadata-Version: 2.1`, `Name: ${name}`, `Version: ${version}`];
  const all = {
    ...files,
    [`${folder}/METADATA`]: [...metadata, ...requires.map((one) => `Requires-Dist: ${one}`), ""].join("\n"),
    [`${folder}/WHEEL`]: "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    ...(programs.length > 0
      ? { [`${folder}/entry_points.txt`]: ["[console_scripts]", ...programs, ""].join("\n") }
      : {}),
  };
  const names = [...Object.keys(all), `${folder}/RECORD`];
  const record = names.map((path) => `${path},,\n`).join("");
  return zipOf(Object.entries({ ...all, [`${folder}/RECORD`]: record }).map(([path, data]) => ({ name: path, data })));
}

export function tarballOf({ name, version, files, manifest = {}, entries = [] }: ServedPackage): Buffer {
  const all = { "package.json": JSON.stringify({ name, version, ...manifest }), ...files };
  return gzipSync(
    tarOf([...Object.entries(all).map(([path, data]) => ({ name: `package/${path}`, data })), ...entries]),
  );
}

const fileOf = (one: ServedPackage) => (one.isSource ? tarballOf(one) : wheelOf(one));
const fileName = ({ name, version, isSource }: ServedPackage) =>
  `${name}-${version}${isSource ? ".tar.gz" : "-py3-none-any.whl"}`;

type Answer = { type: string; body: string | Buffer } | undefined;

async function startServer(
  host: string,
  served: readonly ServedPackage[],
  root: string,
  answer: (packages: readonly ServedPackage[], path: string, url: string) => Answer,
): Promise<PackageServer> {
  let packages = served;
  const asked: string[] = [];
  let url = "";
  const server: Server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? "");
    asked.push(path);
    const to = result.redirects.get(path);
    if (result.authorization !== undefined && request.headers.authorization !== result.authorization)
      return void response.writeHead(401, { "www-authenticate": "Basic" }).end();
    if (to !== undefined) return void response.writeHead(302, { location: to }).end();
    const found = answer(packages, path, url);
    response.writeHead(found ? 200 : 404, { "content-type": found?.type ?? "text/plain" });
    response.end(found?.body ?? "not found");
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  url = `http://${host.includes(":") ? `[${host}]` : host}:${(server.address() as AddressInfo).port}${root}`;
  const result: PackageServer = {
    url,
    asked,
    redirects: new Map(),
    authorization: undefined,
    serve: (...next) => {
      packages = next;
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
  return result;
}
