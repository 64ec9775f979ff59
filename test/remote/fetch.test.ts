import { readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { fetchSource } from "../../src/remote/fetch-source.ts";
import type { FetchedSource, SourceAddress } from "../../src/remote/remote-source.ts";
import { formatSourceAddress, parseSourceAddress } from "../../src/remote/source-address.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { makeRepository } from "../support/repositories.ts";
import { INDEX_PATH, siteEntry, siteIndex, startSite, tarGz } from "../support/skill-site.ts";

const FILES = { "greet/SKILL.md": skillText("greet"), "greet/a/b.txt": "b", "other/SKILL.md": skillText("other") };

const filesIn = ({ folder }: FetchedSource) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();

function fetched(address: SourceAddress): Promise<FetchedSource> {
  return fetchSource(address, { to: temporaryFolder(), env: {} });
}

/** The same files, from every kind of source. */
async function everySource(): Promise<Record<string, SourceAddress>> {
  const folder = temporaryFolder(FILES);
  const archive = join(temporaryFolder(), "skills.tar.gz");
  const bytes = tarGz(folder, "greet", "other");
  writeFileSync(archive, bytes);
  const { url } = await startSite({ "/skills.tgz": bytes });
  return {
    folder: { kind: "folder", path: folder },
    archive: { kind: "archive", location: archive },
    download: { kind: "archive", location: `${url}/skills.tgz` },
    repository: { kind: "git", url: makeRepository(FILES).url },
  };
}

describe("fetching from an address", () => {
  it("[S-33] returns the same files from a folder, an archive, a download and a repository", async () => {
    for (const [kind, address] of Object.entries(await everySource())) {
      const got = await fetched(address);
      expect([kind, filesIn(got)]).toEqual([kind, Object.keys(FILES).sort()]);
      for (const [path, text] of Object.entries(FILES)) expect(readFileSync(join(got.folder, path), "utf8")).toBe(text);
      expect(got.address).toEqual(address);
    }
  });

  it("writes only the requested folder, from each kind of source", async () => {
    for (const [kind, address] of Object.entries(await everySource())) {
      const got = await fetched({ ...address, inside: "greet" } as SourceAddress);
      expect([kind, filesIn(got)]).toEqual([kind, ["SKILL.md", "a/b.txt"]]);
    }
  });

  it("lists the folders with skills when the requested one is missing, for each kind of source", async () => {
    for (const [kind, address] of Object.entries(await everySource())) {
      const error = await fetched({ ...address, inside: "greed" } as SourceAddress).catch((caught) => caught);
      expect([kind, error.code, error.fix]).toEqual([
        kind,
        "source-folder-missing",
        'the source has skills in "greet", "other"',
      ]);
    }
  });

  it("fetches the same from a lock entry, wherever it is read", async () => {
    const elsewhere = { cwd: temporaryFolder(), home: temporaryFolder() };
    const { url } = await startSite({
      [INDEX_PATH]: siteIndex([siteEntry("greet", "skill-md", "/greet.md", skillText("greet"))]),
      "/greet.md": skillText("greet"),
    });
    const site: SourceAddress = { kind: "site", url: `${url}${INDEX_PATH}` };
    for (const address of [...Object.values(await everySource()), site]) {
      const again = parseSourceAddress(formatSourceAddress(address), elsewhere);
      expect(filesIn(await fetched(again))).toEqual(filesIn(await fetched(address)));
    }
  });

  it("reports an invalid path", async () => {
    const folder = temporaryFolder({ "notes.md": "x", "x.zip/y": "" });
    symlinkSync("loop", join(folder, "loop"));
    const codeOf = (address: SourceAddress) =>
      fetched(address).then(
        () => "none",
        (error) => error.code,
      );
    expect(await codeOf({ kind: "folder", path: join(folder, "none") })).toBe("source-missing");
    expect(await codeOf({ kind: "folder", path: join(folder, "notes.md") })).toBe("source-kind");
    expect(await codeOf({ kind: "folder", path: join(folder, "loop") })).toBe("source-unreadable");
    const { url } = await startSite({
      "/moved.tgz": (_, response) => response.writeHead(302, { location: "https://169.254.169.254/x.tgz" }).end(),
    });
    const moved = codeOf({ kind: "archive", location: `${url}/moved.tgz` });
    expect(await moved, "[Q-29]").toBe("download-private-address");
    expect(await codeOf({ kind: "archive", location: join(folder, "none.zip") })).toBe("source-missing");
    expect(await codeOf({ kind: "archive", location: join(folder, "x.zip") })).toBe("source-kind");
    expect(await codeOf({ kind: "archive", location: join(folder, "notes.md") })).toBe("archive-unknown");
  });

  it("accepts a folder by a link to it", async () => {
    const folder = temporaryFolder(FILES);
    const link = join(temporaryFolder(), "link");
    symlinkSync(folder, link);
    expect(filesIn(await fetched({ kind: "folder", path: link }))).toEqual(Object.keys(FILES).sort());
  });

  it("stops on abort", async () => {
    const signal = AbortSignal.abort();
    const path = temporaryFolder(FILES);
    const options = { to: temporaryFolder(), env: {}, signal };
    await expect(fetchSource({ kind: "folder", path }, options)).rejects.toMatchObject({ code: "fetch-aborted" });
  });
});
