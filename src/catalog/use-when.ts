/** A description split into parts: sentences about what the skill does, and sentences about when to use it. */
export interface DescriptionParts {
  what: readonly string[];
  /** The sentences with a "use when" part, the most important first. */
  cues: readonly string[];
  /** When not to use it. */
  negative: readonly string[];
}

const STRONG = "(?:when(?:ever)?|any ?time|every time|each time|proactively|automatically|immediately|upon)";
const WEAK = "(?:for|to|if|before|after|while|during|on|in|as|where|with|at|by|even)";
const HINTS = "(?:(?:make sure to|be sure to|always|must|should|also|only|please|you (?:should|must|can)) )*";
const IT = "(?:(?:this|it|these)(?: [\\w-]+){0,2} |the (?:[\\w-]+ ){0,2}(?:skill|agent|tool|guide|command) )?";
const INVOKED = "(?:used|invoked|triggered|activated|applied|loaded|consulted|called|run)";

/** One row per form in which authors write when to use a skill. Each starts at a clause. */
const CUE_FORMS: readonly { form: string; pattern: string }[] = [
  { form: "Use when …", pattern: `${HINTS}use (?:[^\\s.;]+ ){0,5}?${STRONG}\\b` },
  { form: "Use this skill for …", pattern: `${HINTS}use ${IT}(?:also |only |\\w+ly )?${WEAK}\\b` },
  {
    form: "This skill should be used when …",
    pattern: `(?:[\\w-]+ ){0,5}?(?:should|must|can|may|needs to|is to|has to) (?:\\w+ )?be ${INVOKED}\\b`,
  },
  {
    form: "Is used when …",
    pattern: `(?:(?:[\\w-]+ ){0,3}(?:is|are) )?(?:best )?${INVOKED} (?:when(?:ever)?|for|if|by)\\b`,
  },
  {
    form: "Triggers on …",
    pattern: `${HINTS}(?:auto-?)?(?:trigger|invoke|activate|engage)s? (?:[^\\s.;]+ ){0,4}?(?:${STRONG}|${WEAK})\\b`,
  },
  {
    form: "Apply when …",
    pattern: `${HINTS}(?:apply|applies|load|consult|call|run|reach for)s? (?:[^\\s.;]+ ){0,3}?${STRONG}\\b`,
  },
  {
    form: "Triggers: …",
    pattern:
      "(?:[\\w-]+ ){0,2}?(?:triggers?|use cases?|when to use)(?: (?:words?|phrases?|keywords?|scenarios?|conditions?))?(?: include| are|:)",
  },
  {
    form: "Ideal for …",
    pattern: `(?:is )?(?:ideal|perfect|great|best|useful|helpful|suitable|designed|intended|recommended|appropriate|well[- ]suited|handy|essential|required|needed|relevant|necessary|meant|mandatory) (?:for|when(?:ever)?|if|to use|used)\\b`,
  },
  { form: "For use when …", pattern: "for (?:use )?(?:when(?:ever)?|use (?:in|with|by|on|for|during))\\b" },
  { form: "If the user …", pattern: "if (?:the |a |an )?(?:users?|you|someone|anyone)\\b" },
  {
    form: "Verwenden, wenn …",
    pattern:
      "(?:(?:diese[nrs]? \\S+ )?(?:zu )?(?:verwende[nt]?|benutze[nt]?|nutze[nt]?|einsetzen|anwenden|einzusetzen|aktiviere[nt]?)(?: [^\\s.,;]+){0,3},? (?:wenn|falls|sobald|für|um|bei|zum|zur|immer)|geeignet für|ideal für|wenn (?:der|die|das|du|sie|man|ein|eine|es|nutzer)|falls)(?![\\wäöü])",
  },
  {
    form: "Usar cuando …",
    pattern:
      "(?:(?:usar|usa|úsal[oa]|úsese|utiliza|utilizar|utilícese|emplear|activar|aplicar|invocar)(?: (?:est[ae] )?\\S+){0,2}? (?:cuando|para|si|al|en)|se (?:usa|utiliza) (?:cuando|para)|cuando|ideal para)(?![\\wáéíóúñ])",
  },
  {
    form: "Utiliser quand …",
    pattern:
      "(?:(?:à )?(?:utilise[rz]?|activer|invoquer)(?: \\S+){0,2}? (?:quand|lorsque?|pour|si|dès)|quand|lorsque|lorsqu['’]|idéal pour)(?![\\wàâéèêëîïôùûç])",
  },
  {
    form: "Usar quando …",
    pattern: "(?:(?:use|usar|utilize|utilizar|acione)(?: \\S+){0,2}? (?:quando|para|se|ao)|quando)(?![\\wáâãçéêíóôõú])",
  },
];
/** "when" at the start of a sentence, whatever follows. */
const WHEN = /^(?:when|whenever)\b/i;
/** In scripts without spaces, the whole clause is the cue. */
const UNSPACED =
  /当[^。；]*?时|(?:在|需要)[^。；]*?时(?:使用|调用|触发|启用)|(?:适)?用于|适合|触发|何时使用|使用场景|(?:場合|とき|時|際|たい時)(?:に|は|、)?(?:使|利用|起動|呼|適用|必ず)|に使(?:用|う|って)|[을를할] ?때 ?(?:사용|호출|활성)/;
const NOT = /^(?:do not|don['’]t|never|not|skip|avoid)\b/i;
const CUE = new RegExp(
  `(?<=^|[;:(]\\s?|,\\s|\\s[-–—]\\s|[–—])["'“*]?(?:${CUE_FORMS.map(({ pattern }) => pattern).join("|")})`,
  "i",
);

/** Splits a description, given as one line. `whenToUse` is a cue as written. */
export function splitDescription(description: string, whenToUse = ""): DescriptionParts {
  const [what, cues, triggers, negative]: string[][] = [[], [], [], []] as never;
  for (const sentence of splitSentences(description)) {
    if (NOT.test(sentence)) negative?.push(sentence);
    else {
      const at = findCueStart(sentence);
      if (at === -1) what?.push(sentence);
      else {
        const before = sentence.slice(0, at).replace(/[\s,;:(–—-]+$/, "");
        if (before !== "") what?.push(before);
        const cue = sentence.slice(at);
        // A list of phrases says less than a sentence about the situation.
        (/^["'“*]?(?:auto-?)?(?:\S+ )?triggers?\b/i.test(cue) ? triggers : cues)?.push(cue);
      }
    }
  }
  return {
    what: what ?? [],
    cues: [...splitSentences(whenToUse), ...(cues ?? []), ...(triggers ?? [])],
    negative: negative ?? [],
  };
}

/** Returns true if a text says when to use something. */
export function hasUseWhenCue(text: string): boolean {
  return splitSentences(text).some((sentence) => !NOT.test(sentence) && findCueStart(sentence) !== -1);
}

function findCueStart(sentence: string): number {
  if (WHEN.test(sentence) || UNSPACED.test(sentence)) return 0;
  return CUE.exec(sentence)?.index ?? -1;
}

const END = /[.!?…]+["'”’)\]*]*\s+|[。！？]["'”’）」]*\s*|\s+[•·▪]\s+/g;
const ABBREVIATION = /(?:^|[\s(])(?:e\.g|i\.e|vs|approx|incl|esp|z\.B|d\.h|bzw|p\.ej|no|nr|dr|mr|ms|st)\.\s*$/i;

function splitSentences(text: string): string[] {
  const found: string[] = [];
  let start = 0;
  for (const { 0: end, index } of text.matchAll(END)) {
    const next = index + end.length;
    const sentence = text.slice(start, next);
    const isInside = /\betc\.\s*$/i.test(sentence) && /^[a-z]/.test(text.slice(next, next + 1));
    if (isInside || ABBREVIATION.test(sentence)) continue;
    found.push(sentence.trim());
    start = next;
  }
  found.push(text.slice(start).trim());
  return found.filter((sentence) => sentence !== "");
}
