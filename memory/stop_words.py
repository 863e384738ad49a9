"""Words that say nothing about a subject, by language, and the choice of language for one query.

Lists are only used on the query's side: the index keeps every word, so that an exact phrase can
still be found. Pure data and one pure function; never reads a file or a setting.
"""

from __future__ import annotations

from collections.abc import Collection


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ENGLISH = _words(
    """
    a about above after again against all also am an and any are aren as at be because been before being
    below between both but by can cannot could couldn d did didn do does doesn doing don down during
    each few for from further had hadn has hasn have haven having he her here hers herself him himself
    his how i if in into is isn it its itself just ll m may me might more most must my myself no nor not
    now of off on once only or other our ours ourselves out over own re s same shall she should shouldn
    so some such t than that the their theirs them themselves then there these they this those through
    to too under until up us ve very was wasn we were weren what when where which while who whom whose
    why will with won would wouldn y you your yours yourself yourselves yes please tell let get got
    """
)
GERMAN = _words(
    """
    aber alle als also am an auch auf aus bei beim bin bis bist da damit dann das dass dein deine dem
    den denn der des dich die dir doch du durch ein eine einem einen einer eines er es für gegen habe
    haben hat hatte ich ihm ihn ihr ihre im in ist ja kann kein keine man mein meine mich mir mit nach
    nicht noch nur oder ohne sehr sein seine sich sie sind so und uns unser unter vom von vor war waren
    warum was weil wenn wer werden wie wir wird wo wurde zu zum zur über
    """
)
FRENCH = _words(
    """
    ai as au aux avec avez ce ces cet cette comme comment dans de des du elle elles en est et eu eux
    fait ici il ils j je l la le les leur leurs lui ma mais me mes moi mon n ne nos notre nous on ont où
    ou par pas plus pour pourquoi qu quand que quel quelle qui quoi sa sans se ses si son sont sur ta te
    tes toi ton tu un une va vos votre vous à été était être
    """
)
SPANISH = _words(
    """
    al algo como con cuando cuál cuándo cómo de del desde donde dónde e el ella ellas ellos en era eres
    es esa ese eso esta estaba este esto está están fue ha hay he la las le les lo los me mi mis muy más
    nada ni no nos nosotros o os para pero por porque qué que quien quién se ser si sin sobre son soy su
    sus sí también te ti tiene tu tus tú un una uno y ya yo él
    """
)
PORTUGUESE = _words(
    """
    a ao aos as até com como da das de dela dele do dos e ela elas ele eles em era essa esse esta este
    está eu foi há isso isto já la lhe mais mas me meu meus minha muito na nas no nos nossa nosso não
    nós o onde os ou para pela pelo por porque qual quando que quem se sem ser seu seus sua são só
    também te tem teu tu um uma você é à
    """
)
ITALIAN = _words(
    """
    a ai al alla alle anche che chi ci come con cosa cui da dal dalla dei del della delle di dove e ed
    era essere fa gli ha hai hanno ho i il in io la le lei li lo loro lui ma me mi mia mio ne nel nella
    no noi non o per perché più quale quando quello questa questo se sei si sia sono su sua suo ti tra
    tu un una uno vi è
    """
)
DUTCH = _words(
    """
    aan als bij dan dat de deze die dit doe door een en er geen had heb hebben heeft het hij hoe ik in
    is ja je kan maar me met mij mijn naar niet nog nu of om omdat ons ook op over te tot uit van voor
    waar waarom wanneer waren was wat we werd wie wij wordt ze zich zij zijn zo
    """
)
RUSSIAN = _words(
    """
    а без бы был была были было в вам вас во вот все всё вы где да для до его ее её ей ему если есть еще
    ещё же за и из или им их к как какая какие какой когда кто ли мне мы на над не него нет ни но ну о
    об он она они от по под почему при с со так там то тот ты у уже чем что чтобы эта эти это этот я
    """
)
JAPANESE_OR_CHINESE = frozenset("的了是我你他她它们在有和就都而及与着或吗吧呢啊呀嘛哦对这那个也很还会要")

_BY_LANGUAGE: tuple[frozenset[str], ...] = (
    ENGLISH,
    GERMAN,
    FRENCH,
    SPANISH,
    PORTUGUESE,
    ITALIAN,
    DUTCH,
    RUSSIAN,
)


def stop_words_for(words: Collection[str]) -> frozenset[str]:
    """The list that fits a query of lower-case `words`: that of the language with most words in it.

    English wins a tie, because its words are the ones that other languages' lists would eat
    (`die`, `was`, `per`).
    """
    best, best_count = ENGLISH, sum(word in ENGLISH for word in words)
    for candidate in _BY_LANGUAGE[1:]:
        count = sum(word in candidate for word in words)
        if count > best_count:
            best, best_count = candidate, count
    return best
