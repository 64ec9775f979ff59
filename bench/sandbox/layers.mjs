import { join, resolve } from "node:path";
import { inTurn } from "./rounds.mjs";
import { withWorker } from "./workers.mjs";

const NAMES = ["hello"];
const SHARED = "/var/lib/skillet/packages";

/** Measures a root with additional packages, once it is built. */
export async function layers({ place, samples, say }) {
  const own = resolve(process.env["SKILLET_PACKAGES"] || join(place, "packages"));
  const wanted = { names: NAMES, own, shared: SHARED };
  try {
    await withWorker({ place, say: (text) => say(`packages: ${text}`) }, (ask) =>
      ask("root", { ...wanted, isToBuild: true }),
    );
  } catch (error) {
    return { absent: `packages cannot be built here: ${error.message.split("\n")[0]}` };
  }
  return withWorker({ place, say }, async (ask) => {
    const { kind, root, ms: first } = await ask("root", wanted);
    if (kind !== "layer") return { absent: `${NAMES} is one of the host's own packages: there is no layer to measure` };
    say(`with a layer: ${samples} rounds`);
    const rows = await inTurn(
      [
        { name: "skillet", sample: () => ask("way", { way: "skillet" }) },
        { name: "skillet, layer", sample: () => ask("way", { way: "skillet", given: { root } }) },
        { name: "findPackageRoot", sample: async () => (await ask("root", wanted)).ms },
      ],
      samples,
    );
    return { names: NAMES, first, rows };
  });
}
