"""How people ask to be remembered, ask a question, greet or ask who is there, in several languages.

Patterns only; `intent` decides with them. Each is linear in the length of a sentence: no repeated
group may match the empty string, and every open run has an upper bound.
"""

from __future__ import annotations

import re


def any_of(*patterns: str) -> re.Pattern[str]:
    """One case-insensitive pattern that matches where one of `patterns` does."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


POLITE = re.compile(
    r"(?:(?:hey|hi|ok(?:ay)?|so|and|also|oh|please|pls|bitte|por favor|per favore|s['’]il (?:te"
    r"|vous) pla[iî]t)"
    r"[,!]?\s+|(?:can|could|would|will) you (?:please )?|kannst du (?:dir )?(?:bitte )?){1,4}",
    re.IGNORECASE,
)
"""What may stand before a request without changing it."""

REMEMBER_LEAD = any_of(
    # English
    r"remember(?!\s+(?:to|when|what|who|whom|whose|where|which|how|why|if|me)\b)(?:\s+(?:that|this"
    r"|it|the following))?\b",
    r"(?:do not|don['’]?t|dont|never) forget(?!\s+to\b)(?:\s+(?:that|this|about))?\b",
    r"(?:keep|bear)(?: it| this)? in mind(?:\s+that)?\b",
    r"(?:make|take|leave) a note(?:\s+(?:that|of|about))?\b",
    r"(?:write|jot|note) (?:this |that |it )?down(?:\s+that)?\b",
    r"note(?:\s+that\b|\s+to self\b|\s*:)",
    r"(?:save|store) this\b",
    r"add (?:this )?to (?:my|your|the) (?:notes|memory)\b",
    r"for the record\b",
    r"memo(?:ry)?\s*:",
    # German
    r"merken\s*,?\s*dass\b",
    r"merke? dir(?: bitte)?(?:\s*,?\s*dass\b)?",
    r"(?:bitte )?(?:denk|denke) daran(?:\s*,?\s*dass\b)?",
    r"vergiss (?:bitte )?nicht(?:\s*,?\s*dass\b)?",
    r"(?:notier|notiere|schreib)(?: dir)?(?: bitte)?(?: auf)?(?:\s*,?\s*dass\b|\s*:)",
    r"notiz\s*:",
    # French
    r"(?:souviens|rappelle|rappelez|souvenez)-(?:toi|vous)(?: bien)?(?:\s+(?:que\b|qu['’]|de\b))?",
    r"n['’]oublie[zs]? pas(?:\s+(?:que\b|qu['’]))?",
    r"(?:retiens|retenez|notez?)(?: bien)?(?:\s+(?:que\b|qu['’])|\s*:)",
    # Spanish
    r"(?:recuerda|recuerde|acuérdate|acuerdate)(?:\s+(?:de )?que\b|\s*[:,]|(?=\s))",
    r"no (?:te )?olvides(?:\s+(?:de )?que\b)?",
    r"(?:anota|apunta|ten en cuenta)(?:\s+que\b|\s*:)",
    # Portuguese and Italian
    r"(?:lembre-se|lembra-te|lembre|lembra)(?:\s+(?:de )?que\b|\s*[:,])",
    r"não (?:se |te )?esqueças?(?:\s+(?:de )?que\b)?",
    r"(?:ricorda|ricordati|annota|tieni a mente)(?:\s+che\b|\s*[:,])",
    r"non dimenticare(?:\s+che\b)?",
    # Dutch, Swedish, Russian
    r"onthoud(?:\s+dat\b)?",
    r"kom ihåg(?:\s+att\b)?",
    r"(?:запомни|запомните|запиши|запишите|не забудь|не забудьте)(?:\s*,?\s*что\b)?",
    # Chinese, Japanese, Korean
    r"(?:请|請|麻烦|麻煩)?你?(?:帮我|幫我|替我)?(?:记住|記住|记得|記得|记下来?|記下來?|记一下|記一下|记录一下|記錄一下"
    r"|别忘了?|別忘了?|不要忘记|不要忘記|备注|備註)(?:了|吧)?",
    r"(?:覚えておいて|覚えといて|覚えて|メモして|忘れないで)(?:おいて)?(?:ください|下さい)?ね?(?=\s*[:\uff1a、\uff0c。!\uff01]|$)",
    r"メモ\s*[:\uff1a]",
    r"(?:기억해|메모해|적어)\s?(?:줘|주세요|둬|두세요)?(?=\s*[:\uff1a,\uff0c.!]|$)",
)
"""The start of a sentence that asks to keep what follows."""

REMEMBER_WHOLE = any_of(
    r"(?:remember|remind me|(?:do not|don['’]?t|dont) forget) to\b",
    r"erinner(?:e)? mich(?: bitte)? (?:daran|an)\b",
    r"rappelle-moi (?:de|d['’])",
    r"recuérdame\b",
    r"lembre-me (?:de|que)\b",
    r"ricordami (?:di|che)\b",
    r"напомни мне\b",
    r"提醒我",
)
"""A request to keep that is only understood with its first words, such as "don't forget to …"."""

REMEMBER_TAIL = any_of(
    r"[,\uff0c、。\s]{0,5}(?:请|請)?(?:帮我|幫我)?(?:记住|記住|记下来?|記下來?|记一下|記一下)(?:了|吧|哦|这个|這個)?[。.!\uff01]*$",
    r"(?:という?の?を|ということを|ことを|って|と|を)?、?\s*(?:覚えて|メモして|忘れないで)(?:おいて|いて)?(?:ください|下さい)?ね?[。.!\uff01]*$",
    r"\s*(?:라고|다고|는 것을|는 걸)?\s*(?:꼭\s)?(?:기억해|메모해|적어)"
    r"\s?(?:줘|주세요|둬|두세요)?[.!。\uff01]*$",
)
"""The end of a sentence that asks to keep what came before, as Japanese, Korean and Chinese have it."""

QUESTION_MARK = re.compile(r"[?\uff1f؟\u037e]+[\s\"'”’»)\uff09\]」』*_]*$")
QUESTION_START = any_of(
    r"(?:what|when|who|whom|whose|where|which|why|how)(?:['’](?:s|re|d|ll))?\b",
    r"(?:did|do|does|is|are|was|were|am|can|could|will|would|should|have|has|had)\s+"
    r"(?:i|you|we|he|she|it|they|my|your|our|his|her|their|the|this|that|there|any|anyone|somebody)\b",
    r"(?:wer|wen|wem|wann|wo|wohin|woher|wie|warum|wieso|weshalb|welche[rsmn]?|was)\b",
    r"(?:habe|hast|haben|bin|bist|ist|sind|war|kannst|weißt|weisst)\s+(?:ich|du|wir|er|sie|es|mein\w*)\b",
    r"(?:quel(?:le)?s?|quand|qui|où|comment|pourquoi|combien|est-ce|qu['’]est-ce|que|quoi)\b",
    r"(?:qué|cuándo|quién(?:es)?|dónde|cuál(?:es)?|cómo|por qué|cuánt[oa]s?)\b",
    r"(?:qual|quais|quando|quem|onde|quanto|por que|o que)\b",
    r"(?:quale|quali|chi|dove|come|perché|cosa|che cosa)\b",
    r"(?:wat|wanneer|waar|waarom|hoe|welke)\b",
    r"(?:что|когда|кто|где|куда|как|почему|зачем|какой|какая|какое|какие|сколько)\b",
)
"""A question by its first words; without a question mark it must also be short and have no comma."""

QUESTION_CJK = any_of(
    r"什么|什麼|谁|誰|哪里|哪裡|哪儿|哪个|哪個|哪天|几点|幾點|多少|怎么|怎麼|为什么|為什麼|何时|何時",
    r"[吗嗎呢][。.!\uff01]*$",
    r"何です|いつ|どこ|だれ|どう(?!し(?:ても|ぞ))|なぜ|どれ|どの|いくつ|いくら|(?:です|ます|でした|ました)か[。.]*$",
    r"뭐|무엇|누구|언제|어디|어떻게|왜\s|얼마|(?:니까|나요|까요|는지)[.]*$",
)

LOOK_UP = any_of(
    r"do you (?:remember|recall|know)\b",
    r"(?:can|could) you (?:remember|recall|tell me|find|look up|search|show me)\b",
    r"tell me(?:\s+(?:about|again|what|when|who|where|which|how|everything))?\b",
    r"remind me (?:about|of|what|when|who|where|which|how|again)\b",
    r"(?:remember|recall) (?:when|what|who|whom|whose|where|which|how|why|if)\b",
    r"(?:search|look|check)(?:\s+(?:in|through|up|for|my|your|the|notes|memory|memories)){1,5}\b",
    r"(?:search|find|recall|show me|list|look up)\b",
    r"(?:weißt du|erinnerst du dich|erzähl mir|sag mir|zeig(?:e)? mir|suche?|finde)\b",
    r"(?:te souviens-tu|tu te souviens|dis-moi|parle-moi|montre-moi|cherche|trouve)\b",
    r"(?:te acuerdas|recuerdas|dime|háblame|muéstrame|busca|encuentra)\b",
    r"(?:você (?:se )?lembra|diga-me|me diga|mostre|procure|encontre)\b",
    r"(?:ti ricordi|dimmi|parlami|mostrami|cerca|trova)\b",
    r"(?:помнишь|скажи|расскажи|найди|покажи)\b",
    r"(?:请|請)?(?:帮我|幫我)?(?:告诉我|告訴我|搜索|搜尋|查找|查一下|找一下|找找)",
    r".{0,60}(?:教えて|探して|検索して)",
    r".{0,60}(?:알려\s?(?:줘|주세요)|찾아\s?(?:줘|주세요)|검색해)",
)
"""A request to look something up, by its first words."""

GREETING = any_of(
    r"(?:hi|hello|hey|hiya|howdy|greetings|good (?:morning|afternoon|evening|day)|yo)(?: there"
    r"| nacre| again| all)?",
    r"(?:how are you|how is it going|how['’]s it going|what['’]s up|nice to meet you)(?: today| doing)?",
    r"(?:hallo|moin|servus|guten (?:morgen|tag|abend)|grüß dich|wie geht['’]?s(?: dir)?)",
    r"(?:bonjour|bonsoir|salut|coucou|ça va)",
    r"(?:hola|buenos días|buenas (?:tardes|noches)|qué tal)",
    r"(?:olá|oi|bom dia|boa (?:tarde|noite)|ciao|buongiorno|buonasera|hej|hoi)",
    r"(?:привет|здравствуй(?:те)?|добрый (?:день|вечер)|доброе утро)",
    r"(?:你好|您好|嗨|早上好|晚上好|哈囉|哈喽)[啊呀]?",
    r"(?:こんにちは|こんばんは|おはよう(?:ございます)?|はじめまして|もしもし)",
    r"(?:안녕(?:하세요)?|반가워요?)",
)
THANKS = any_of(
    r"(?:thanks|thank you|thx|cheers|great|perfect|ok(?:ay)?|cool|nice)(?:,? (?:thanks|thank you"
    r"|a lot|so much|very much|that['’]s all)){0,2}",
    r"(?:danke(?: schön)?|vielen dank|merci(?: beaucoup)?|(?:muchas )?gracias|obrigad[oa]"
    r"|grazie(?: mille)?|спасибо|tack|bedankt)",
    r"(?:谢谢|謝謝|多谢|多謝|ありがとう(?:ございます)?|고마워요?|감사합니다)",
)
FAREWELL = any_of(
    r"(?:bye|goodbye|good night|see you(?: later| soon| tomorrow)?|bye bye)",
    r"(?:tschüss|auf wiedersehen|au revoir|adiós|hasta luego|tchau|arrivederci|пока|до свидания|再见"
    r"|再見|さようなら|잘\s?가)",
)
ABOUT_SELF = any_of(
    r"\bwho are you\b|\bwhat are you\b|\bwhat can (?:you|i) (?:do|ask|say)\b|\bwhat do you do\b",
    r"^(?:help|menu|commands)\W*$",
    r"\bhow (?:do|does|can) (?:i|you|this|it|one) (?:work|use you|use this|connect|start)\b",
    r"\bare you (?:an? )?(?:real |human|ai\b|bot\b|robot|llm|gpt|chatgpt|claude|language model"
    r"|model\b|person|offline)",
    r"\b(?:connect|switch on|set up|configure|use|add) (?:a |an |the |another |real |language ){1,3}model\b",
    r"\bwer bist du\b|\bwas kannst du\b|\bqui es-tu\b|\bque peux-tu\b|\bquién eres\b",
    r"\bqué puedes hacer\b|\bкто ты\b",
    r"你是谁|你是誰|你会什么|你能做什么|あなたは誰|何ができ|너는 누구|뭐 할 수 있",
)
FORGET = any_of(
    r"^(?:please )?(?:forget|delete|erase)\s+(?:that|this|about|what|everything|my|the|it|all)\b",
    r"^(?:vergiss|lösche|oublie|efface|olvida|borra|забудь)\s(?!nicht\b|pas\b)",
    r"^(?:忘掉|忘了|删除|刪除)|(?:忘れて|消して)(?:ください)?[。.!\uff01]*$",
)
