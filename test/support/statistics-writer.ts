/** Records this number of runs, as a separate program: `node statistics-writer.ts HOME NAME COUNT`. */
import { createStatisticsStore } from "../../src/store/statistics.ts";
import { ended } from "./statistics-events.ts";

const [, , home = "", name = "", count = "0"] = process.argv;
const statistics = createStatisticsStore(home);
for (let number = 0; number < Number(count); number++) {
  await statistics.record(ended("greet", { run: `${name}-${number}`, iterations: 2 }));
}
process.emitWarning("said by the test");
