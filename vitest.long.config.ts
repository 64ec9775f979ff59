import { defineConfig } from "vitest/config";
import { listFilesThatImport } from "./test/support/tiers.ts";

/** Tests that take minutes and large downloads: `npm run test:long`. The gate has a small test of each requirement that they cite. */
export default defineConfig({
  test: {
    // Tests that sample run here with all steps and rows.
    include: [
      "test/**/*.long.ts",
      ...listFilesThatImport("support/sample-steps.ts"),
      ...listFilesThatImport("support/guide-scenes.ts"),
    ],
    env: { SKILLET_TEST_LONG: "1" },
    exclude: ["**/node_modules/**"],
    setupFiles: ["test/support/machine.ts"],
    // Only turns a hang into a failure: simulations take ten minutes on a busy machine.
    testTimeout: 1_800_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 45_000, interval: 20 } },
    unstubEnvs: true,
    maxWorkers: 1,
  },
});
