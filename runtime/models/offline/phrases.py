# ruff: noqa: E501 - a row of the table is one line
r"""How people ask, remember, decide and prefer: one table of patterns.

A row is a kind and a pattern; rows of a kind add up. Patterns are written for `plain` text: lower case, simple
marks, simplified Chinese. Each is linear in the length of a sentence: no repeated group may match the empty
string, and every open run has an upper bound.
"""

from __future__ import annotations

import re

from nacre.memory.text.days.day_words import MONTHS, WEEKDAYS
from nacre.runtime.models.offline.sentences import ONE_WRITING

_TABLE = r"""
# in front of a request, and no part of it
polite     (?:hey|hi|ok(?:ay)?|so|and|also|oh|please|pls|bitte|por favor|per favore|s'il (?:te|vous) pla[iî]t)[,!]?\s+
polite     (?:can|could|would|will) you (?:please )?|kannst du (?:dir )?(?:bitte )?
# asks to keep what follows; all of the sentence; what goes before
keep       remember(?!\s+(?:to|when|wh?at|who[ms]?e?|where|which|how|why|if|me)\b)\b|(?:do not|don'?t|never) forget(?!\s+to\b)(?: about)?\b
keep       (?:keep|bear)(?: it| this)? in mind\b|(?:make|take|leave) a note(?: of| about)?\b|for the record\b|(?:save|store) this\b
keep       (?:write|jot|note) (?:this |that |it )?down\b|add (?:this )?to (?:my|your|the) (?:notes|memory)\b|note(?: to self\b|(?=\s+that\b|\s*:))|memo(?:ry)?(?=\s*:)
keep       (?:merke? dir|vergiss (?:bitte )?nicht|denke? daran|notiere?(?: dir)?|schreib dir)(?: bitte)?(?: auf)?\b|notiz(?=\s*:)|merken(?=,?\s+dass\b)
keep       (?:(?:souviens|rappelle|rappelez|souvenez)-(?:toi|vous)|n'oublie[zs]? pas|retiens|retenez)(?: bien)?(?: de\b)?|note[zs]?(?=\s+qu|\s*:)
keep       recuerd[ae](?=[\s:,])|acu[eé]rdate|no (?:te )?olvides|(?:anota|apunta|ten en cuenta)(?=\s+que\b|\s*:)|lembr[ae](?:-se|-te)?(?=\s+(?:de )?que\b|\s*[:,])
keep       não (?:se |te )?esqueças?|(?:ricordati|ricorda|annota|tieni a mente)(?=\s+che\b|\s*[:,])|non dimenticare|onthoud|kom ihåg|запомни(?:те)?|запиши(?:те)?(?! (?:меня|нас|его|ее|их)\b)|не забудь(?:те)?
keep       (?:请|麻烦)?你?(?:帮我|替我)?(?:记住|记得|记下来?|记一下|记录一下|别忘[了记]?|不要忘记|备注)(?:了|吧)?
keep       (?:覚えておいて|覚えといて|覚えて|メモして|忘れないで)(?:おいて)?(?:ください|下さい)?ね?(?=\s*[:、,。!]|$)|メモ(?=\s*:)
keep       (?:기억해|메모해|적어)\s?(?:줘|주세요|둬|두세요)?(?=\s*[:,.!]|$)
keep_whole (?:remember|remind me|(?:do not|don'?t) forget) to\b|remind me (?:when|if) (?:we|i|you) (?:next )?(?:talk|speak|mention|discuss)\b|erinnere? mich\b|rappelle-moi d|recuérdame\b|lembre-me\b|ricordami\b|напомни мне|提醒我
keep_tail  (?:[,、。\s]{1,5}|(?<![我要能人都会想]))(?:请)?(?:帮我)?(?:记住|记下来?|记一下)(?:了|吧|哦|这个)?[。.!]*$
keep_tail  (?:という?の?を|ということを|ことを|って|と|を)?、?\s*+(?:覚えて|メモして|忘れないで)(?:おいて|いて)?(?:ください|下さい)?ね?[。.!]*$
keep_tail  \s*+(?:라고|다고|는 것을|는 걸)?\s*+(?:꼭\s)?(?:기억해|메모해|적어)\s?(?:줘|주세요|둬|두세요)[.!。]*$|(?:[,、]\s*|(?<=[야요어])\s|\s*[라다]고\s?)(?:꼭\s)?(?:기억해|메모해|적어)[.!。]*$
# begins a question; shows one anywhere; asks without being one
question   (?:what|when|who|whom|whose|where|which|why|how)(?:'(?:s|re|d|ll))?\b
question   (?:did|do|does|is|are|was|were|am|can|could|will|would|should|have|has|had)\s+(?:i|you|we|he|she|it|they|my|your|our|his|her|their|the|this|that|there|any|anyone|somebody)\b
question   (?:wer|we[nm]|wann|wo|wohin|woher|wie|warum|wieso|weshalb|welche[rsmn]?|was|(?:habe|hast|haben|bin|bist|ist|sind|war|kannst)\s+(?:ich|du|wir|er|sie|es|mein\w*))\b
question   (?:quel(?:le)?s?|quand|qui|où|comment|pourquoi|combien|(?:qu')?est-ce|que|quoi|qué|cuándo|quién(?:es)?|dónde|cuál(?:es)?|cómo|por qué|cuánt[oa]s?)\b
question   (?:qua(?:l|is|ndo|nto|le|li)|quem|onde|por que|o que|chi|dove|come|perché|(?:che )?cosa|wat|wanneer|waar|waarom|hoe|welke)\b
question   (?:что|когда|кто|где|куда|как|почему|зачем|как(?:ой|ая|ое|ие)|сколько)\b
marked     什么|谁|哪[里儿个天]|几点|多少|怎么|为什么|何时|[吗呢][。.!]*$|뭐|무엇|누구|언제|어디|어떻게|왜\s|얼마|(?:니까|나요|까요|는지)[.]*$
marked     何です|いつ|どこ|だれ|どう(?!し(?:ても|ぞ))|なぜ|どれ|どの|いくつ|いくら|(?:です|ます|でした|ました)か[。.]*$
look_up    (?:do|can|could) you (?:remember|recall|know)\b|tell me\b|(?:recall|show me|list|look up|search|find)\b|remember (?:when|what|who[ms]?e?|where|which|how|why|if)\b
look_up    remind me (?:about|of|what|when|who|where|which|how|again)\b|(?:look|check)(?: in| through| for)? (?:my|your|the) (?:notes|memory|memories)\b
look_up    (?:weißt du|erinnerst du dich|(?:erzähl|sag|zeige?) mir|suche?|finde|te souviens-tu|tu te souviens|(?:dis|parle|montre)-moi|cherche|trouve)\b
look_up    (?:te acuerdas|recuerdas|dime|háblame|muéstrame|busca|encuentra|você (?:se )?lembra|diga-me|me diga|mostre|procure|encontre)\b
look_up    (?:ti ricordi|dimmi|parlami|mostrami|cerca|trova|помнишь|скажи|расскажи|найди|покажи)\b
look_up    请?(?:帮我)?(?:告诉我|搜索|搜寻|查找|查一下|找一下|找找)|.{0,60}(?:教えて|探して|検索して|알려\s?(?:줘|주세요)|찾아\s?(?:줘|주세요)|검색해)
# what a statement is
decision   ^(?:decision|decided|entscheidung|décision|decisión|decisão|decisione|决定)\s*:|\b(?:they|the (?:team|board|group|committee)) (?:have |has )?(?:decided|agreed|chose)\b
decision   \b(?:we|i)(?:'ve| have| had)?(?: just| finally| now| all)? (?:decided|agreed|chose|chosen|settled on|picked)\b|\b(?:our|my|the) (?:final )?decision (?:is|was)\b
decision   \b(?:we|i)(?:'ll| will|'re going to| are going to|'m going to) (?:use|go with|ship|switch to|move to|drop|stick with|adopt)\b|\blet'?s (?:go with|use|stick with|choose|pick)\b
decision   \b(?:wir|ich) (?:haben|habe|hatten)\b.{0,120}?\b(?:entschieden|beschlossen|vereinbart|festgelegt)\b|\bwir (?:nehmen|verwenden|einigen uns|entscheiden uns)\b
decision   \b(?:(?:nous avons|on a|j'ai) (?:décidé|convenu|choisi)|decid(?:ido|imos|í|i)|acordamos|acordado|elegimos|escolhemos|combinamos|(?:abbiamo|ho) (?:deciso|scelto|concordato))\b
decision   (?:мы|я) (?:решил|договорились|выбрали)|(?:我们|我|咱们)(?:最后|最终|已经)?(?:决定|选择|约定|商定|定下)|(?:하기로|쓰기로|으로|로) (?:했|결정|정했|하겠)
decision   ことに(?:しました|した|します|する|決めた|決めました|決まりました)|[とに]決め(?:た|ました)|採用(?:します|しました)
preference \bi(?:'d| would)?(?: \w+ly| always)? prefer\b|\bmy (?:preference|favou?rite)\b|\bfrom now on\b|\b(?:i(?:'m| am)|\w+(?:'s| is)) (?:allergic|vegetarian|vegan|left-handed|lactose|colou?r-?blind)\b
preference \bi (?:really |always )?(?:like|love|hate|dislike|enjoy|can'?t stand|(?:don'?t|do not|never|always) (?:like|eat|drink|use|work|take|want|wear))\b(?! (?:it|this|that|you)\b)
preference \bich (?:bevorzuge|mag|liebe|hasse|(?:esse|trinke) kein\w*|bin (?:allergisch|veget\w*|vegan\w*))\b|\blieblings\w+|\bje (?:préfère|déteste|n'aime pas|suis (?:allergique|végét\w*))|\bj'(?:aime|adore)\b
preference \b(?:prefiero|odio|soy alérgic[oa]|me (?:gusta|gustan|encanta)|prefiro|odeio|gosto de|não gosto|preferisco|mi piac(?:e|ciono)|detesto)\b|\bя (?:не )?(?:предпочитаю|люблю|ненавижу)|\bмне (?:не )?нрав
preference 我(?:更|最|比较|不|很|非常)?(?:喜欢|讨厌|偏好|偏爱|爱吃|爱喝|习惯)|我对.{1,12}过敏|[がは]大?(?:好き|嫌い|苦手)(?:です|だ|な|。|$)|アレルギー|좋아해|좋아합니다|싫어해|싫어합니다|알레르기
rule       \b(?:always|never|at most|at least|no more than|must(?: not|n't)?|instead of|rather than)\b|\b(?:do not|don'?t) (?:use|touch|change|add|send|write|delete|commit)\b|\bplease (?:use|keep|answer|avoid)\b
rule       \b(?:immer|niemals|höchstens|mindestens|toujours|jamais|siempre|nunca|sempre|никогда|всегда)\b|一定要|不要|不能|总是|必ず|絶対に|しないで|항상|절대
open       \b(?:i|we) (?:still |also )?(?:(?:need|have|want|ought) (?:you )?to|must|should)\b|\bneeds? to be\b|\bto-?do\b|\b(?:blocked (?:by|on)|stuck (?:on|with)|waiting (?:for|on))\b|\b(?:remind me|remember to|forget to)\b
open       \b(?:ich|wir) (?:muss|müssen|sollten?|brauchen?|warte\w*)\b|\berinner\w* mich\b|\b(?:il faut|je dois|nous devons|on doit|rappelle-moi)\b|\b(?:tengo que|tenemos que|hay que|necesito|debemos|recuérdame)\b
open       \b(?:preciso|temos que|tenho que|devo|dobbiamo|bisogna|нужно|надо|должны|должен)\b|需要|必须|应该|提醒我|しなければ|する必要|すべき|해야|필요
request    ^(?:please|pls|(?:can|could|would|will) you|bitte|kannst du|peux-tu|pourrais-tu|puedes|por favor|per favore|пожалуйста)\b|^(?:请|麻烦|帮我)|(?:ください|お願いします|주세요)[。.!]*$
fact       \bmy name\b|\bi(?:'m| am) called\b|\bcall me\b(?! (?:back|later|when|at|on|tomorrow|today|if|as soon)\b)|\b(?:is|are) (?:my|our) (?:\w+ )?\w+[.!]*$
fact       \b(?:my|our)\s+[^.?!,;]{1,80}?(?:\s(?:is|are|was|were|lives?|works?|has|have|starts?|ends?|runs?|will be)|'s)\b|\bi(?:'m| am) (?:an? [a-z]+|from|based|married|\d+ years old)\b
fact       \b(?:i|we) (?:live|work|study|moved|own|was born|were born|grew up|speak|have (?:an?|two|three|four|\d+))\b
fact       \b(?:mein|unser)\w{0,2}\s+[^.?!,;]{1,80}?\s(?:ist|sind|heißt|heißen|war|wohnt|hat|beginnt)\b|\bich (?:hei(?:ß|ss)e|wohne|arbeite|lebe|komme aus)\b|\bmein name\b
fact       \b(?:mon|ma|mes|notre|nos)\s+[^.?!,;]{1,80}?\s(?:est|sont|s'appelle|habite)\b|\bj'habite\b|\bje (?:m'appelle|vis|travaille)\b
fact       \b(?:mis?|nuestr[oa]s?|meus?|minhas?|mi[oae]|miei)\s+[^.?!,;]{1,80}?\s(?:es|son|está|se llama|vive|é|são|mora|se chama|fica|è|sono|si chiama)(?!\w)
fact       \b(?:me llamo|me chamo|meu nome|mi chiamo|(?:vivo|trabajo|moro|trabalho|abito|lavoro) (?:en|como|em|na|no|a|in|come))\b|\b(?:меня зовут|мо(?:й|я|ё|и)\s+[^.?!,;]|я (?:живу|работаю))
fact       我(?:的|家|们的)[^。?!]{1,40}(?:是|叫|在|有|为|住|姓)|我(?:叫|的名字|住在|在.{1,12}(?:工作|上班))|名前は|と申します|(?:私|僕|俺|わたし|うち)の[^。?!]{1,40}は|に住んで|で働いて
fact       (?:^|\s)(?:내|제|우리)\s[^.?!]{1,40}[은는이가]\s|에 살
date       \b\d{4}-\d{2}-\d{2}\b|\b\d{1,2}[./]\d{1,2}[./]\d{2}|\d{1,2}[月월]\s?\d{1,2}[日号일]|\b\d{1,2}\S{0,2}\s+(?:of |de )?MONTH\b|\bMONTH\s+\d{1,2}|\bWEEKDAY\b
date       (?:周|星期|礼拜)[一二三四五六日天]|[月火水木金土日]曜|[월화수목금토일]요일|\b(?:tomorrow|next (?:week|month|year)|deadline|birthday|appointment|geburtstag|termin|anniversaire|rendez-vous|cumpleaños)\b|明天|生日|明日|誕生日|내일|생일
supposed   (?:if|when|unless|suppose|imagine|maybe|perhaps|wenn|falls|si|se|если)\b|如果|假如|もし|만약
# small talk
greeting   (?:hi|hello|hey|hiya|howdy|greetings|good (?:morning|afternoon|evening|day))(?: there| nacre| again| all)?|how are you(?: today| doing)?|how(?: i|')s it going|nice to meet you
greeting   hallo|moin|servus|guten (?:morgen|tag|abend)|wie geht'?s(?: dir)?|bonjour|bonsoir|salut|ça va|hola|buenos días|buenas (?:tardes|noches)|qué tal|(?:你好|您好|嗨|早上好|晚上好)[啊呀]?
thanks     (?:thanks|thank you|thx|cheers|great|perfect|ok(?:ay)?|cool|nice)(?: a lot| so much| very much|,? that's all)?|danke(?: schön)?|vielen dank|merci(?: beaucoup)?|(?:muchas )?gracias|谢谢|多谢
farewell   bye|goodbye|good night|see you(?: later| soon| tomorrow)?|tschüss|auf wiedersehen|au revoir|adiós|hasta luego|再见
about      \b(?:who|what) are you\b|\bwhat can (?:you|i) (?:do|ask|say)\b|\bwhat do you do\b|^(?:help|menu|commands)\W*$|\bhow (?:do|does|can) (?:i|you|this|it) (?:work|use you|use this|connect|start)\b
about      \bare you (?:an? )?(?:real|human|ai|bot|robot|llm|gpt|chatgpt|claude|language model|model|person|offline)\b|\b(?:connect|set up|configure|use|add) (?:a |an |the |another |real |language ){1,3}model\b
about      \bwer bist du\b|\bwas kannst du\b|\bqui es-tu\b|\bque peux-tu\b|\bquién eres\b|\bqué puedes hacer\b|你是谁|你会什么|你能做什么
forget     ^(?:please )?(?:forget|delete|erase)\s+(?:that|this|about|what|everything|my|the|it|all)\b|^(?:vergiss|lösche)\s(?!(?:bitte )?nicht\b)|^(?:oublie|efface)\s(?!pas\b)|^(?:olvida|borra|забудь)\s|^(?:忘掉|忘了|删除)|(?:忘れて|消して)(?:ください)?[。.!]*$
remind     ^(?:please )?(?:remind me|wake me)\b|^(?:bitte )?(?:erinner\w* mich|weck mich)\b|^rappelle-moi\b|^(?:recuérdame|avísame)\b|^(?:me )?lembre\b|^ricordami\b|^напомни\b|^请?提醒我|思い出させて|リマインド
# words that say nothing of what is asked for
asking     remember|recall|know|find|search|look|show|remind|notes?|memory|memories|anything|something|everything|said|say|told|want|need|make|think
asking     weißt|erinnerst|sag|zeig|such|suche|dime|dis|cherche|busca|dimmi|скажи|найди|谁|记得|[ぁ-ゖ]+|私の|は誰|誰で
"""


def _patterns() -> dict[str, re.Pattern[str]]:
    rows: dict[str, list[str]] = {}
    for row in _TABLE.strip().translate(ONE_WRITING).splitlines():
        if not row.startswith("#"):
            kind, pattern = row.split(maxsplit=1)
            for word, names in (("MONTH", MONTHS), ("WEEKDAY", WEEKDAYS)):
                pattern = pattern.replace(word, f"(?:{'|'.join(map(re.escape, names))})")
            rows.setdefault(kind, []).append(pattern)
    return {kind: re.compile("|".join(patterns)) for kind, patterns in rows.items()}


PHRASES = _patterns()
"""The pattern of each kind, over all languages, for `plain` text."""


def occurs(kind: str, text: str) -> bool:
    """Whether a `plain` text contains a phrase of this kind."""
    return PHRASES[kind].search(text) is not None
