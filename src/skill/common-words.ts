/** Function words and small talk: the ranking drops them, and a trigger made of them has no weight. */
const FUNCTION_WORDS = `0 1 2 3 4 5 6 7 8 9 a about all also am an and any are as at be been before being but by can could couldn did didn
    do does doesn doing don each everything for from get gets getting give had has have having he hello help helps her here
    hey hi him his how i if in into is isn it its just keep let like look looking make makes making me my need needed needs
    no not of ok okay on one or our out please same she should shouldn so some something such than thanks that the their
    them then there these they this those to too up us use used user uses using want wants was we were what when where which
    who why will with won would wouldn yes you your`;

/**
 * Words that occur in all kinds of requests, so that one of them alone does not select a skill. Base forms: `isCommonWord`
 * handles inflections. Words that can be the topic of a skill ("invoice", "deploy", "review") are missing here; the catalog
 * counts their frequency.
 */
const COMMON_WORDS = `able above accept across act actual actually add after again against ago ahead allow almost alone along already
    although always among amount another answer anyone anything anyway appear apply area around ask attempt avoid away
    back bad base basic because become begin behind believe below beside best better between beyond big bit both break
    brief bring build buy call came care carry case cause certain chance change check choice choose clean clear close
    collect come common complete consider contain continue control copy correct cost count couple course cover create
    current currently cut daily day deal decide deep describe detail determine differ difference different difficult
    direct discuss do done down draw drop during early easy edit effect either else empty end enough enter entire
    especially even ever every everyone exact exactly example except exist expect explain extra fact fail fall familiar
    far fast feel few figure fill final finally find fine finish first fit five follow form found four friend front full
    further future general generally go goal gone good got great group grow guess guide half hand handle happen happy
    hard head hear hide high hint hold home hope hour however huge human idea identify imagine important improve include
    indeed inside instead interest interesting introduce involve item itself join jump keep kind know known large last
    late lately later latest lead learn least leave left less let level life light likely limit line list little live
    long lose lot love low main maintain many mark matter maximum may maybe mean meaning measure meet mention might mind
    minimum minute miss mistake mix modern moment month more morning most mostly move much multiple must myself name
    near nearly necessary never new next nice night nobody none normal normally nothing notice now number obvious occur
    odd off offer often old once only open opinion order original other otherwise over overall own page pair part
    particular pass past pay people perfect perhaps period person personal pick picture piece place play point popular
    possible post prefer prepare present press pretty prevent previous probably problem process produce product proper
    properly prove provide public purpose put quality question quick quickly quiet quite raise range rather reach read
    ready real really reason recent recently recommend reduce regular relate relevant remain remember remove repeat
    replace reply request require respond rest result return right room round rule said save say second see seem seen
    send sense sentence separate serve set seven several shape share short show side similar simple simply since single
    six size slow small smart solve somebody somehow someone sometimes somewhere soon sort sound space speak special
    specific spend split stand standard start state stay step still stop store story straight strong stuff subject
    success successful suggest suitable suppose sure surprise take talk task tell ten term thank thing think third
    though thought three through throughout time tiny title today together tomorrow tonight top total touch toward
    trouble true try turn two type under understand unless until update usual usually various very visit wait walk watch
    way weak well whatever whenever whether while whole whose wide wish within without wonder word work world worry
    worse worst worth write written wrong year yesterday yet young yourself
    access action api app application argument array assign attach attribute backend background block body box branch
    browser buffer bug button byte cell channel character class click client cloud code codebase color column command
    comment commit component computer condition config configuration configure connect connection console constant
    content context convert core custom data database date debug default define delete dependency dev develop developer
    development device directory disable display document documentation domain download element enable engine entry env
    environment error event exception execute execution exit export expression extension extract failure feature field
    file filename filter fix flag flow folder framework frontend function generate global header host id image implement
    implementation import index info information init initialize input insert install instance instruction integer
    integration interface internal issue key label language layout lib library link load local lock log logic login loop
    machine manage manager manual map match memory menu message method mode model modify module network node note null
    object operation option output overview package panel parameter parse path pattern perform performance permission
    platform preview primary print priority production profile program programming project prompt property pull push
    query random raw record refresh release reload remote repo repository reset resource response restart revert rewrite
    root route row run runtime sample scale scope screen script scroll search section select sequence server service
    session setting setup shell signal site skip software solution spec specification stack startup statement
    static status stream string structure style submit support switch sync syntax system tab table tag target team temp
    template terminal test text timeout token tool topic transform trigger ui unit upgrade upload url username utility
    valid validate value variable verify version view warning web website width window workflow workspace wrap`;

/** Common German words, in the forms that requests use. */
const COMMON_GERMAN_WORDS = `aber alle alles als also am an andere ändere ändern anlegen antworte antworten arbeite arbeiten auch auf aus baue bauen
    bei beim beschreibe beschreiben bin bist bitte brauche brauchen bringe da dann das dass datei dateien dein deine dem den
    der des die dies diese diesen dieser dieses doch du ein eine einem einen einer eines er erkläre erklären erstell erstelle
    erstellen es etwas fehler find finde finden frage für füge gehe geht gerne gib gibt gut habe haben hallo hat hier hilf
    hilfe hilfst hinzu ich ihr im immer in ist ja jetzt kann kannst kein keine können lass lese lesen liste lies lösche
    löschen mach mache machen machst mal mehr mein meine meinen meiner mich mir mit möchte muss nach neu neue neuen nicht nimm
    noch nun nur nutze nutzen ob oder ohne öffne öffnen ordner prüfe prüfen sag sage schau schaue schnell schon schreib
    schreibe schreiben sehe seite sich sie sind so soll sollte starte starten such suche suchen test teste testen text über
    um und uns unser unsere verbessere verwende verwenden viel vom von vor wann war warum was welche welcher wenn wer werden
    wie will wir wird wo würde zeig zeige zeigen zu zum zur`;

/** Common file name extensions: a glob for one of them matches most files of some project. */
const COMMON_EXTENSIONS =
  "* bash c cc cjs cpp cs css cxx dart go h hpp htm html java js json jsx kt less md mdx mjs mts php pl py rb rs rst scala scss sh swift ts tsx txt vue yaml yml";

/** Folders that contain most files of a project. */
const COMMON_FOLDERS = "app apps lib libs packages source sources src";

/** Contract: `word` is in lower case. */
export function isFunctionWord(word: string): boolean {
  functionWords ??= createWordSet(FUNCTION_WORDS);
  return functionWords.has(word);
}

/** Returns true if a word, in this form or its base form, is too common to select a skill. Contract: `word` is in lower case. */
export function isCommonWord(word: string): boolean {
  commonWords ??= createWordSet(COMMON_WORDS);
  germanWords ??= createWordSet(COMMON_GERMAN_WORDS);
  if (isFunctionWord(word) || commonWords.has(word) || germanWords.has(word)) return true;
  if (word.length === 1) return word >= "a" && word <= "z";
  const known = commonWords;
  return INFLECTIONS.some(
    ([ending, ...others]) => word.endsWith(ending) && isInflectedWord(known, word, ending, others),
  );
}

/** Contract: `extension` is in lower case. */
export function isCommonExtension(extension: string): boolean {
  return createWordSet(COMMON_EXTENSIONS).has(extension);
}

/** Contract: `folder` is in lower case. */
export function isCommonFolder(folder: string): boolean {
  return createWordSet(COMMON_FOLDERS).has(folder);
}

// Created when they are first used: most starts match no query.
let functionWords: ReadonlySet<string> | undefined;
let commonWords: ReadonlySet<string> | undefined;
let germanWords: ReadonlySet<string> | undefined;

/** `tries` is a form of `try`, `making` of `make`, `running` of `run`. */
function isInflectedWord(known: ReadonlySet<string>, word: string, ending: string, others: readonly string[]): boolean {
  const base = word.slice(0, -ending.length);
  if (base.length < 2) return false;
  if (known.has(base) || others.some((other) => known.has(base + other))) return true;
  return base.at(-1) === base.at(-2) && known.has(base.slice(0, -1));
}

const INFLECTIONS: readonly (readonly [ending: string, ...others: string[]])[] = [
  ["s"],
  ["es"],
  ["ies", "y"],
  ["ed", "e"],
  ["ied", "y"],
  ["ing", "e"],
];

function createWordSet(list: string): ReadonlySet<string> {
  return new Set(list.trim().split(/\s+/));
}
