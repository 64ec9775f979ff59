import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";

/** A folder of its own for one test, with these files in it; gone when the test is over. */
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

/** A skill file that is right in every respect. */
export function skillText(name: string, options: { description?: string; body?: string; more?: string } = {}): string {
  const {
    description = `Does ${name}. Use when asked for ${name}.`,
    body = `# ${name}\n\nDo it.`,
    more = "",
  } = options;
  return `---\nname: ${name}\ndescription: ${description}\n${more}---\n\n${body}\n`;
}
