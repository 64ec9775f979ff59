// Loaded into a separate process of a test with `--import`: built modules replace the imported sources.
import { registerHooks } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [sources, built] = ["src", "build"].map(
  (folder) => pathToFileURL(join(import.meta.dirname, "../..", folder, "/")).href,
);

registerHooks({
  resolve(asked, context, next) {
    const found = next(asked, context);
    if (!found.url.startsWith(sources)) return found;
    return { ...found, url: built + found.url.slice(sources.length).replace(/\.ts$/, ".js"), format: "module" };
  },
});
