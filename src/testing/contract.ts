/** One case of a contract suite. It rejects if the driver breaks the contract. */
export interface ContractCase {
  name: string;
  run(): Promise<void>;
}

/** A storage for one case, empty at first. */
export interface ContractStorage<Store> {
  /** Opens the storage, each time as another process would. */
  open(): Store | Promise<Store>;
  /** Removes the storage. */
  close?(): Promise<void>;
}

/** Creates an empty storage. */
export type CreateStorage<Store> = () => ContractStorage<Store> | Promise<ContractStorage<Store>>;

/** The checks of a suite by name. `open` opens the same storage each time. */
export type ContractChecks<Store> = Readonly<Record<string, (open: () => Promise<Store>) => Promise<void>>>;

/** Creates the cases of a suite: each runs on its own storage. */
export function createContractCases<Store>(
  checks: ContractChecks<Store>,
  create: CreateStorage<Store>,
): ContractCase[] {
  return Object.entries(checks).map(([name, check]) => ({
    name,
    async run() {
      const storage = await create();
      try {
        await check(async () => storage.open());
      } finally {
        await storage.close?.();
      }
    },
  }));
}

/** Repeats a check until it passes: what one process writes takes effect in another one within two seconds. */
export async function eventually(check: () => Promise<void>): Promise<void> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    try {
      return await check();
    } catch {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
  return check();
}

const MAX_TRIES = 100;
const RETRY_MS = 20;
