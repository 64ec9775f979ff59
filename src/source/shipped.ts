import { packageRoot } from "../package.ts";
import { isInside } from "../shared/inside.ts";

/** True for a path in this package: what is there came with it. */
export function isShipped(path: string): boolean {
  const root = packageRoot();
  return root !== undefined && isInside(root, path);
}
