/** Says how far it is, from the lines of apt and dpkg. Each thing once: what was fetched is got again from where it was put. */
export function progressOf(say: (text: string) => void, arch: string): (line: string) => void {
  const said = new Set<string>();
  return (line) => {
    const text = fetched(line, arch) ?? setUp(line);
    if (text === undefined || said.has(text)) return;
    said.add(text);
    say(text);
  };
}

/** `Get:1 http://deb.debian.org/debian bookworm/main amd64 hello amd64 2.10-3 [53.1 kB]`; some archives have no suite, some lines no architecture. */
function fetched(line: string, arch: string): string | undefined {
  if (!/^Get:\d+ /.test(line)) return undefined;
  const words = line
    .replace(/ \[[^\]]*\]$/, "")
    .split(/\s+/)
    .slice(2); // Without the number and the address.
  const version = words.pop();
  if (words.at(-1) === arch || words.at(-1) === "all") words.pop();
  const name = words.pop();
  return name === undefined ? undefined : `fetching ${name} ${version}`;
}

/** `Setting up libhello1:amd64 (2.10-3) ...` */
function setUp(line: string): string | undefined {
  const [, name, version] = /^Setting up ([^\s:]+)\S* \(([^)]+)\)/.exec(line) ?? [];
  return name === undefined ? undefined : `setting up ${name} ${version}`;
}
