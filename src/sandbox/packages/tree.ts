import { chmodSync, chownSync, existsSync, lstatSync, mkdirSync, readdirSync, readlinkSync, rmSync } from "node:fs";
import { join } from "node:path";
import { SkillError } from "../../shared/error.ts";
import { oneLine } from "../../shared/text.ts";
import { isRoot } from "../places.ts";
import { type Range, runInRange } from "./range.ts";
import { type Result, type RunOptions, run } from "./run.ts";

/** A folder for one build, that only the builder can enter. */
export function stagingFolder(place: string, name: string, { builder }: Range): string {
  const folder = join(place, "staging", name);
  mkdirSync(folder, { mode: 0o700 });
  if (builder) chownSync(folder, builder.uid, builder.gid);
  return folder;
}

/** The host's programs, and nothing else of it. */
export function hostPrograms(): string[] {
  const links = linksToUsr().flatMap((name) => ["--symlink", readlinkSync(`/${name}`), `/${name}`]);
  const folders = LIBRARIES.filter((name) => existsSync(`/${name}`) && !linksToUsr().includes(name));
  return [
    ...["--ro-bind", "/usr", "/usr", "--tmpfs", "/tmp", "--ro-bind-try", "/etc/alternatives", "/etc/alternatives"],
    ...["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"],
    ...links,
    ...folders.flatMap((name) => ["--ro-bind", `/${name}`, `/${name}`]),
  ];
}

const LIBRARIES = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/** Which of the top folders are links into /usr here, and so in any root of the same release. */
export function linksToUsr(): string[] {
  return LIBRARIES.filter((name) => lstatSync(`/${name}`, { throwIfNoEntry: false })?.isSymbolicLink());
}

export interface TidyOptions extends RunOptions {
  range: Range;
  /** The place that both roots are in. */
  place: string;
  /** A root in the same place: files that are the same become one with its. */
  base?: string;
  /** Make everything readable by everybody: true for a base, which holds nothing of anybody's. */
  isOpen: boolean;
}

/** Makes a finished root fit to be mounted by anybody: the builder owns all of it, nobody else can write to it, nothing in it has rights of its own. */
export async function tidy(root: string, options: TidyOptions): Promise<{ bytes: number }> {
  const { range, place, base = "", isOpen } = options;
  const args = (at: string, known: string) => ["-e", TIDY, at, known, isOpen ? "open" : ""];
  // Not where it is: that may be below a folder that a range has of its own.
  const mounted = (path: string) => (path === "" ? "" : `/mnt${path.slice(place.length)}`);
  // Root needs no range to change owners. No code of a package is run here.
  const result = range.builder
    ? await run("perl", args(root, base), options)
    : await runInRange(
        [...hostPrograms(), "--bind", place, "/mnt"],
        ["/usr/bin/perl", ...args(mounted(root), mounted(base))],
        options,
      );
  expectFine(result, "the new root could not be put in order");
  return { bytes: Number(result.stdout.trim()) };
}

// Perl, because every Debian has it and, in a range, Node may not be readable.
const TIDY = String.raw`
use strict; use warnings; use POSIX ();
my ($root, $base, $open) = @ARGV; my $bytes = 0;
sub same { my ($a, $b) = @_; local $/ = \65536; my ($x, $y);
  open(my $f, '<:raw', $a) or return 0; open(my $g, '<:raw', $b) or return 0;
  do { $x = <$f>; $y = <$g>; return 0 if ($x // '') ne ($y // '') } while (defined $x); return 1 }
sub walk { my ($inner) = @_; opendir(my $handle, "$root$inner") or die "$inner: $!";
  for my $name (grep { $_ ne '.' && $_ ne '..' } readdir $handle) {
    my $path = "$inner/$name"; my $file = "$root$path"; my @stat = lstat $file or die "$path: $!";
    my $mode = $stat[2]; POSIX::lchown(0, 0, $file) or die "$path: $!"; next if -l _;
    my $bits = $mode & 0755; $bits |= 0444 | (-d _ || $mode & 0100 ? 0111 : 0) if $open;
    if (-d _) { chmod($bits, $file) or die "$path: $!"; walk($path); next }
    if (!-f _) { unlink $file or die "$path: $!"; next }
    chmod($bits, $file) or die "$path: $!";
    my @old = $base eq '' ? () : lstat "$base$path";
    if (@old && -f _ && $old[2] == ($bits | 0100000) && $old[7] == $stat[7] && $old[9] == $stat[9] && same($file, "$base$path")) {
      my $new = "$file.skillet-link"; if (link "$base$path", $new) { rename $new, $file or die "$path: $!"; next } }
    $bytes += $stat[7] } }
POSIX::lchown(0, 0, $root); chmod 0755, $root; walk(''); print $bytes;
`;

/** Removes a folder, also where a build broke off and files belong to the range. */
export async function removeTree(folder: string, range: () => Range): Promise<void> {
  try {
    rmSync(folder, { recursive: true, force: true });
    return;
  } catch (error) {
    if (isRoot()) throw error;
  }
  chmodSync(folder, 0o700);
  for (const name of readdirSync(folder)) {
    const inner = join(folder, name);
    const mounts = [...hostPrograms(), "--bind", inner, "/mnt"];
    const argv = ["/usr/bin/find", "/mnt", "-xdev", "-mindepth", "1", "-delete"];
    if (lstatSync(inner).isDirectory()) await runInRange(mounts, argv, { range: range() });
  }
  rmSync(folder, { recursive: true, force: true });
}

export function expectFine(result: Result, what: string): void {
  if (result.code === 0) return;
  throw new SkillError("package-install", {
    message: `${what}: ${oneLine(result.tail.slice(-800))}`,
    fix: "nothing of it is left; if it is a package's own script that fails without a network, that package cannot be used",
  });
}
