import { defineConfig } from "vitest/config";

/** Tests that take minutes and large downloads: `npm run test:long`. The gate has a small test of each requirement that they cite. */
export default defineConfig({
  test: {
    include: ["test/**/*.long.ts"],
    exclude: ["**/node_modules/**"],
    setupFiles: ["test/support/machine.ts"],
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 45_000, interval: 20 } },
    unstubEnvs: true,
    maxWorkers: 1,
  },
});
