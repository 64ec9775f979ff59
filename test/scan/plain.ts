import { carry, fence, type Labelled, type Parts } from "./carrier.ts";
import { HARD } from "./plain-hard.ts";

const DOMAINS =
  "accounting accessibility ansible architecture-records art-history backup billing bioinformatics blogging bookkeeping calendar chess cooking copywriting crm dashboards data-quality debugging dependency-updates design-review docker email-drafts embedded etl feature-flags finance fitness gardening genealogy geodata git-history grading graphql haiku helm hiring i18n incident-review infrastructure inventory invoices journalism kubernetes legal-review load-testing localisation logging maps marketing medical-notes migrations music-theory observability onboarding pdf-form-fields performance photography podcasts postgres presentations pricing product-specs python-packaging query-plans recipes regex-writing release-notes research-papers rust scheduling seo spreadsheets sql statistics storyboards style-guide subtitles support-tickets svg taxes teaching terraform test-data theming timezones translation travel typescript unit-tests user-interviews video-editing weather web-scraping wiki-pages writing-coach yoga".split(
    " ",
  );

const PARAGRAPHS = [
  "Ask one question at a time. When the answer is unclear, say what you assumed and go on.",
  "Do not guess numbers: every figure comes from a file that the user gave, with its name.",
  "Always show the plan first, and wait for the user to confirm before anything is changed.",
  "Use a table when there are more than three rows, else a sentence. 📊 Charts are welcome. 👩‍💻",
  "Nutze kurze Sätze. Überschriften sind Fragen, und jede Antwort steht im ersten Satz.",
  "请先阅读用户提供的文件，然后用三句话总结要点。不要添加文件中没有的内容。",
  "ユーザーの質問に答える前に、資料を確認してください。分からないときは質問してください。",
  "Сначала прочитайте файл целиком, затем ответьте кратко. API-ключ пользователь вводит сам.",
  "اقرأ الملف أولاً ثم لخّصه في ثلاث جمل قصيرة.",
  "קרא את הקובץ כולו לפני שאתה עונה. שמור על תשובה קצרה.",
  "पहले पूरी फ़ाइल पढ़ें, फिर संक्षेप में उत्तर दें।",
  "Œuvre d'abord sur le plan, puis sur le détail ; n'invente jamais une source.",
];

const FENCES: readonly (readonly [string, string])[] = [
  ["sh", 'rg --files -g "*.md" | sort | head -20'],
  ["sh", "git log --oneline --since='2 weeks ago' | head"],
  ["json", '{\n  "title": "Plan",\n  "items": [{ "name": "first", "done": false }]\n}'],
  [
    "python",
    "import csv\n\nwith open('in.csv', newline='') as source:\n    rows = list(csv.DictReader(source))\nprint(len(rows))",
  ],
  ["sql", "SELECT customer_id, sum(total) FROM orders GROUP BY customer_id ORDER BY 2 DESC LIMIT 10;"],
  ["yaml", "services:\n  web:\n    image: nginx:1.27\n    ports: ['8080:80']"],
  [
    "ts",
    "export function slug(text: string): string {\n  return text.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-');\n}",
  ],
  ["sh", "npm ci\nnpm test -- --coverage"],
  ["sh", 'curl -s https://api.example.com/v1/items?page=2 -H "Accept: application/json" | jq ".items[].name"'],
  ["html", '<label for="mail">Mail</label>\n<input id="mail" type="email" autocomplete="email">'],
  ["diff", "- const x = 1;\n+ const count = 1;"],
  ["text", "| name | total |\n|------|-------|\n| a    | 12    |"],
];

const SCRIPTS: readonly (readonly [string, string])[] = [
  [
    "count.sh",
    '#!/usr/bin/env bash\nset -euo pipefail\nfor file in "$@"; do\n  printf "%s\\t%s\\n" "$(wc -l < "$file")" "$file"\ndone | sort -rn\n',
  ],
  [
    "clean.py",
    "#!/usr/bin/env python3\nimport argparse, json, pathlib, re\n\ndef main():\n    parser = argparse.ArgumentParser()\n    parser.add_argument('file', type=pathlib.Path)\n    args = parser.parse_args()\n    text = args.file.read_text(encoding='utf-8')\n    print(json.dumps({'words': len(re.findall(r'\\w+', text))}))\n\nif __name__ == '__main__':\n    main()\n",
  ],
  [
    "report.mjs",
    'import { readFileSync, writeFileSync } from "node:fs";\n\nconst [input, output = "report.md"] = process.argv.slice(2);\nconst rows = JSON.parse(readFileSync(input, "utf8"));\nwriteFileSync(output, rows.map((row) => `- ${row.name}: ${row.total}`).join("\\n"));\n',
  ],
  [
    "fetch.py",
    "import os, sys, json, urllib.request\n\nBASE = 'https://api.example.com/v2'\n\ndef get(path):\n    request = urllib.request.Request(BASE + path, headers={'Authorization': 'Bearer ' + os.environ['EXAMPLE_TOKEN']})\n    with urllib.request.urlopen(request, timeout=20) as answer:\n        return json.load(answer)\n\nprint(json.dumps(get(sys.argv[1]), indent=2))\n",
  ],
  [
    "convert.sh",
    '#!/bin/sh\nset -eu\ntmp=$(mktemp -d)\ntrap \'rm -rf "$tmp"\' EXIT\nfor f in "$1"/*.png; do\n  convert "$f" -resize 50% "$tmp/$(basename "$f" .png).webp"\ndone\nmv "$tmp"/*.webp "$1"/\n',
  ],
  [
    "chart.js",
    'const fs = require("fs");\nconst data = fs.readFileSync(0, "utf8").trim().split("\\n").map(Number);\nconst most = Math.max(...data);\nfor (const value of data) console.log("#".repeat(Math.round((value / most) * 40)));\n',
  ],
  ["stats.rb", "values = ARGF.each_line.map(&:to_f)\nmean = values.sum / values.size\nputs format('%.2f', mean)\n"],
  [
    "post.mjs",
    'const token = process.env.TRACKER_TOKEN;\nif (!token) throw new Error("TRACKER_TOKEN is missing");\nconst answer = await fetch("https://tracker.example.com/api/issues", {\n  method: "POST",\n  headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },\n  body: JSON.stringify({ title: process.argv[2] }),\n});\nconsole.log(answer.status);\n',
  ],
];

function usual(domain: string, index: number): Labelled {
  const [language, code] = FENCES[index % FENCES.length] ?? ["sh", "ls"];
  const [another, more] = FENCES[(index * 7 + 3) % FENCES.length] ?? ["sh", "ls"];
  const [file, script] = SCRIPTS[index % SCRIPTS.length] ?? ["a.sh", "ls\n"];
  const paragraph = PARAGRAPHS[(index * 5) % PARAGRAPHS.length];
  const topic = domain.replaceAll("-", " ");
  const body = `## When ${topic} is asked for\n\n${paragraph}\n\n${fence(language, code)}\n\nFor larger ${topic} work, split it:\n\n${fence(another, more)}\n\n${PARAGRAPHS[(index * 5 + 1) % PARAGRAPHS.length]}`;
  const parts: Parts = { body, description: `Helps with ${topic}. Use when the user asks about ${topic}.` };
  const files: Record<string, string> = {};
  if (index % 2 === 0) files[`scripts/${file}`] = script;
  if (index % 3 === 0)
    files["references/guide.md"] =
      `# ${topic}\n\n${PARAGRAPHS[index % PARAGRAPHS.length]}\n\n${fence(language, code)}\n`;
  if (index % 5 === 0) files["evals/triggers.json"] = JSON.stringify({ queries: [`help me with ${topic}`] });
  return { id: domain, files: { ...carry(index, { ...parts, files }) } };
}

/** Skills that do what they say: the usual ones, and those that are hard to tell from harmful ones. */
export const PLAIN: readonly Labelled[] = [
  ...DOMAINS.map(usual),
  ...HARD.map(({ id, ...parts }, index) => ({ id, files: carry(index, parts) })),
];
