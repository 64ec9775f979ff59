import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";

/** Creates a folder for one test, with these files in it, and removes it after the test. */
export function temporaryFolder(files: Record<string, string | Uint8Array> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), "skillet-test-"));
  // A process that was just killed may still write a last file.
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }));
  writeFiles(folder, files);
  return folder;
}

export function writeFiles(folder: string, files: Record<string, string | Uint8Array>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
}

/** Returns a valid skill file. */
export function skillText(name: string, options: { description?: string; body?: string; more?: string } = {}): string {
  const {
    description = `Does ${name}. Use when asked for ${name}.`,
    body = `# ${name}\n\nDo it.`,
    more = "",
  } = options;
  return `---\nname: ${name}\ndescription: ${description}\n${more}---\n\n${body}\n`;
}
