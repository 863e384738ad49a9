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
CHINESE = _words(
    """
    什么 怎么 怎样 怎么样 为什么 哪里 哪儿 哪个 哪些 哪天 多少 几个 如何 是否 是不是 有没有 能不能
    会不会 要不要 可不可以 自己 我们 你们 他们 她们 它们 咱们 大家 这个 那个 这些 那些 这样 那样
    这么 那么 这里 那里 这儿 那儿 这种 那种 这次 那次 这边 那边 非常 特别 真的 真是 十分 比较 有点
    有些 一些 一点 一下 一个 一种 一直 一起 一样 一定 有时 时候 可以 可能 能够 应该 必须 需要 觉得
    感觉 感到 认为 以为 知道 想要 希望 因为 所以 但是 可是 不过 然后 而且 并且 或者 还是 还有 虽然
    如果 要是 只要 只有 除了 以及 关于 对于 由于 于是 因此 其实 当然 不是 就是 也是 都是 只是 没有
    不会 不能 不要 不用 不想 不太 已经 正在 曾经 总是 经常 常常 今天 昨天 明天 后天 前天 现在 当时
    后来 最近 以前 以后 之前 之后 刚才 刚刚 马上 终于 最后 我的 你的 您的 他的 她的
    它的 谁的 好的 好吧 是的 对啊 请问 帮我 告诉 谢谢
    """
)
CHINESE_PARTICLES = frozenset("的了是我你您他她它们吗吧呢啊呀嘛哦嗯很这那也还就都在")
"""Characters that mostly stand beside a word and not in one."""
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
