"""WhatsApp: the text that Android and iPhones export, in any language; also the Markdown of signal-export.

A message begins with a date and a time, in brackets on iPhones and followed by a dash on Android, in the format of the
phone's region; the lines of a message after the first have neither. What WhatsApp wrote itself has no author on
Android; on iPhones, it begins with a left-to-right mark (U+200E).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from seq2seq_chat.prepare.readers.chats.dates import DATE, STAMP, Clock
from seq2seq_chat.prepare.readers.chats.exports import Export
from seq2seq_chat.prepare.readers.chats.formats import ChatFormat, Message, Names, join_lines

MARKS = "\u200e\u200f\u202a\u202b\u202c\u2066\u2067\u2068\u2069\ufeff"
"""Invisible characters that give the direction of text."""

_STYLES = [
    re.compile(rf"[{MARKS}]*\[({STAMP})\] ?"),
    re.compile(rf"[{MARKS}]*({STAMP}) [-–] "),
    re.compile(rf"[{MARKS}]*({STAMP}): (?=[^:\n]+:)"),  # iPhones before 2016
]
_MEDIA = re.compile(
    r"<(?![a-z/]+>)[^<>\n]{3,80}>|.{2,20}[:：] ?https://maps\.google\.com/\S+|null"
    r"|(?:IMG|VID|PTT|AUD|STK|DOC)-\d{8}-WA\d+\.\w{2,5} ?[(（].{3,40}[)）]"
    r"|.{1,200}\.\w{2,5} ?[(（][^()（）]{0,30}(?:attach|angehäng|adjunt|joint|anexad|allegat|bijgevoegd|добавлен"
    r"|прикреп|додан|\bek|załącz|bifog|vedhæft|vedlagt|liit|přilož|prilož|συνημ|csatol|atașat|lampir|đính kèm"
    r"|添付|附|첨부|مرفق|מצורף|संलग्न|แนบ)[^()（）]{0,30}[)）]"
    r"|live location shared|live-standort wird geteilt|ubicación en tiempo real compartida"
    r"|localisation en direct partagée|localização em tempo real (?:compartilha|partilha)da"
    r"|posizione in tempo reale condivisa|live locatie gedeeld",
    re.IGNORECASE,
)
_MEDIA_WORDS = re.compile(
    r"omitted|weggelassen|ausgeschlossen|omiti?d|omis|absent|omess|non inclus|weggelaten|niet opgenomen|ocult|pominięt"
    r"|dahil edilmedi|vynech|uteläm|udelad|utelatt|jätetty pois|пропущ|не (?:включ|добавл)|attached|angehängt|adjunto"
    r"|ficheiro|생략|省略|忽略|略去|含まれて|مستبعد|استبعاد|הושמט",
    re.IGNORECASE,
)
_OMITTED = re.compile(  # of iPhones, when the mark was lost on the way
    r"(?:(?:image|photo|video|audio|sticker|GIF|document|contact card|Bild|Foto|Dokument|Kontaktkarte|imagen|vídeo"
    r"|documento|tarjeta de contacto|imagem|áudio|figurinha|cartão d[eo] contato|vidéo|autocollant|carte de contact"
    r"|immagine|adesivo|afbeelding|contactkaart|изображение|фото|видео|аудио|стикер|документ|görüntü|resim|ses|çıkartma"
    r"|belge|obraz|zdjęcie|wideo|naklejka|billede|bilde|kuva|tarra|תמונה|סרטון|מדבקה)\s|画像|写真|動画|ビデオ|音声"
    r"|ステッカー|사진|이미지|동영상|스티커|오디오|문서|[图圖](?:像|片)|影片|视频|貼圖|贴图|تم )"
    rf".{{0,12}}(?:{_MEDIA_WORDS.pattern})\S*(?: \S+)?",
    re.IGNORECASE,
)
_MARKDOWN = re.compile(r"\s*!?\[[^\[\]\n]*\]\((?:\./)?media/[^()\n]*\)")  # a file, as signal-export writes it
_FILE_NAME = re.compile(r"[^\n]{1,200}\.\w{2,5}")
_EDITED = re.compile(
    r"(?<=[^\s\u200e])\s*(?:\u200e<[^<>\n]+>|<(?=[^<>\n]*(?:edit|bearbeit|modif|bewerkt|düzenlen|redig|muok|uprav|edyt"
    r"|szerkeszt|επεξεργ|измен|змінен|редаг|編輯|编辑|編集|수정|تعديل|ویرایش|נערכ|संपादित|एडिट|แก้ไข|chỉnh sửa))"
    r"[^<>\n/]{5,60}>)$",
    re.IGNORECASE,
)
_DELETED = frozenset(
    (
        "This message was deleted|You deleted this message|This message was deleted by admin|"
        "Diese Nachricht wurde gelöscht|Du hast diese Nachricht gelöscht|Se eliminó este mensaje|"
        "Eliminaste este mensaje|Este mensaje fue eliminado|Este mensaje se eliminó|Ce message a été supprimé|"
        "Vous avez supprimé ce message|Essa mensagem foi apagada|Mensagem apagada|Mensagem apagada por um admin|"
        "Você apagou essa mensagem|Você apagou esta mensagem|Esta mensagem foi apagada|"
        "Esta mensagem foi eliminada|Apagou esta mensagem|Eliminou esta mensagem|"
        "Questo messaggio è stato eliminato|Hai eliminato questo messaggio|Dit bericht is verwijderd|"
        "U hebt dit bericht verwijderd|Je hebt dit bericht verwijderd|Данное сообщение удалено|"
        "Вы удалили данное сообщение|Это сообщение было удалено|Bu mesaj silindi|Bu mesajı sildiniz|"
        "Pesan ini dihapus|Pesan ini telah dihapus|Anda menghapus pesan ini|Anda telah menghapus pesan ini|"
        "Ta wiadomość została usunięta|Usunięto tę wiadomość|Tato zpráva byla smazána|"
        "Smazal(a) jste tuto zprávu|Det här meddelandet togs bort|Du tog bort det här meddelandet|"
        "Tämä viesti poistettiin|Poistit tämän viestin|このメッセージは削除されました|メッセージを削除しました|"
        "此訊息已刪除|您已刪除此訊息|此消息已被删除|"
        "您删除了此消息|你删除了此条消息|삭제된 메시지입니다|메시지를 삭제했습니다|"
        "تم حذف هذه الرسالة|حذفت هذه الرسالة|הודעה זו נמחקה|"
        "מחקת הודעה זו|यह संदेश हटा दिया गया था|यह मैसेज हटा दिया गया|आपने यह संदेश हटा दिया है|"
        "Mensaje eliminado|Usunąłeś tę wiadomość|Usunęłaś tę wiadomość|Вы удалили это сообщение|"
        "Це повідомлення видалено|Це повідомлення було видалено|Ви видалили це повідомлення|"
        "Съобщението беше изтрито|Tato zpráva byla odstraněna|Táto správa bola odstránená|"
        "Ova poruka je izbrisana|Ova je poruka izbrisana|To sporočilo je bilo izbrisano|Ši žinutė buvo ištrinta|"
        "Šī ziņa tika izdzēsta|Ezt az üzenetet törölték|Ez az üzenet törlésre került|Törölted ezt az üzenetet|"
        "Acest mesaj a fost șters|Ați șters acest mesaj|Αυτό το μήνυμα διαγράφηκε|Διαγράψατε αυτό το μήνυμα|"
        "S'ha suprimit aquest missatge|Aquest missatge s'ha suprimit|Denne besked blev slettet|"
        "Du slettede denne besked|Denne meldingen ble slettet|Du slettet denne meldingen|"
        "Detta meddelande raderades|Det här meddelandet raderades|Hierdie boodskap was uitgevee|"
        "Mesej ini telah dipadam|Anda telah memadam mesej ini|Tin nhắn này đã bị xóa|Bạn đã xóa tin nhắn này|"
        "ข้อความนี้ถูกลบแล้ว|คุณลบข้อความนี้แล้ว|此訊息已被刪除|你已刪除此訊息|"
        "这条消息已被删除|이 메시지는 삭제되었습니다|이 메시지를 삭제했습니다|"
        "این پیام حذف شد|این پیام حذف شده است|یہ پیغام حذف کر دیا گیا تھا|यह मैसेज डिलीट कर दिया गया है|"
        "हा संदेश हटविण्यात आला होता|এই বার্তাটি মুছে ফেলা হয়েছে|এই মেসেজটি মুছে ফেলা হয়েছে"
    )
    .casefold()
    .split("|")
)
_NOTICE = re.compile(
    r"(?:Missed (?:group )?(?:voice|video) call|Verpasster (?:Sprach|Video|Gruppen)\w*anruf|Llamada(?: de \w+)? perdida"
    r"|Videollamada perdida|Appel (?:vocal|vidéo) manqué|Chiamata (?:vocale|video)\w* persa|Videochiamata persa"
    r"|(?:Ligação|Chamada) de (?:voz|vídeo) perdida|Gemiste? (?:spraak|video)-?(?:oproep|gesprek)"
    r"|Пропущенный (?:аудио|видео)звонок|Пропущений (?:аудіо|відео)дзвінок|Cevapsız (?:sesli|görüntülü) arama"
    r"|Nieodebran[ea] (?:połączenie|rozmowa)|Zmeškaný (?:hlasový|video)\s?hovor|Zmeškaný videohovor"
    r"|Missat (?:röst|video)samtal|Ubesvaret (?:tale|video)opkald|Tapt (?:tale|video)anrop"
    r"|Vastaamaton (?:ääni|video)puhelu"
    r"|Αναπάντητη .{0,10}κλήση|Panggilan (?:suara|video) t(?:id)?ak terjawab|Cuộc gọi (?:thoại|video) nhỡ"
    r"|मिस्ड (?:वॉइस|वीडियो) कॉल|مكالمة (?:صوتية|فيديو) فائتة|שיח[הת] (?:קולית|וידאו) שלא נענתה"
    r"|.{0,6}不在着信|ビデオ通話の不在着信|未接(?:語音|语音|視訊|视频)\S*|부재중 \S+ ?통화"
    r"|Silenced (?:voice|video) call|(?:(?:Voice|Video) call|(?:Sprach|Video)anruf|Llamada de voz"
    r"|Videollamada|Appel (?:vocal|vidéo)|(?:Chamada|Ligação) de (?:voz|vídeo)|Chiamata vocale|Videochiamata"
    r"|(?:Spraak|Video)-?oproep|(?:Аудио|Видео)звонок|(?:Sesli|Görüntülü) arama"
    r"|(?:音声|ビデオ|语音|語音|视频|視訊)通[話话]"
    r"|(?:음성|영상) ?통화)[,.，、] ?\u200e?(?:\d|No answer|Tap|keine Antwort)|Waiting for this message"
    r"|Warte auf diese Nachricht|Esperando (?:este mensaje|a mensagem)|En attente de ce message"
    r"|This message was deleted by admin [^\n]|(?:You received a v|V)iew once (?:voice )?message\b"
    r"|(?:Messages|Nachrichten|Les messages|Los mensajes|As mensagens|I messaggi|Berichten|Сообщения|Mesajlar|Pesan"
    r"|Wiadomości) [^\n]{0,50}(?:end-to-end (?:encrypted|versleuteld)|Ende-zu-Ende-verschl|bout en bout"
    r"|extremo a extremo|ponta a ponta|crittografat|сквозн|uçtan uca|dienkripsi|szyfrowan))[^\n]*"
)
_POLL = re.compile(
    r"(?:POLL|UMFRAGE|ENCUESTA|SONDAGE|SONDAGEM|ENQUETE|SONDAGGIO|PEILING|ANKIETA|ANKETA|ANKET|ОПРОС|ОПИТУВАННЯ"
    r"|OMRÖSTNING|AFSTEMNING|AVSTEMNING|KYSELY|SZAVAZÁS|SONDAJ|POLLING|JAJAK PENDAPAT"
    r"|アンケート|投票|투표|استطلاع|סקר|पोल) ?[:：]\n"
)
_QUOTES = re.compile(r"[\"“”„«»「」『』]")
_ISOLATES = re.compile("[\u2066-\u2069]")
_MARKS_AND_SPACE = MARKS + " \n"
_FIRST_LINES = 100


def _style(text: str) -> re.Pattern[str] | None:
    """The regular expression for the start of messages, if one of the first lines is such a start."""
    lines = text.split("\n", _FIRST_LINES)[:_FIRST_LINES]
    counts = {style: sum(map(bool, map(style.match, lines))) for style in _STYLES}
    best = max(_STYLES, key=lambda style: counts[style])
    return best if counts[best] else None


def _read(export: Export) -> Iterator[Message | str]:
    style = _style(export.start())
    if style is None:
        return iter(())
    clock, names = _survey(export, style)

    def begin(line: str) -> Message | None:
        start = style.match(line)
        time = clock.read(start[1]) if start else None
        if start is None or time is None:
            return None
        author, text = _split(line[start.end() :], names)
        return Message(author, time, text)

    return join_lines(export.lines(), begin, _finish, stray="before the first message")


def _survey(export: Export, style: re.Pattern[str]) -> tuple[Clock, Names]:
    """The clock of a file, and the names in it."""
    stamps: dict[str, str] = {}
    names = Names(": ")
    for line in export.lines(progress=False):
        start = style.match(line)
        if start is None:
            continue
        day = DATE.match(start[1])
        stamps.setdefault(day[0] if day else start[1], start[1])
        names.add(line[start.end() :])
    return Clock(stamps.values(), export.name, export.date_order), names


def _split(text: str, names: Names) -> tuple[str, str]:
    """The author, who is empty if it is WhatsApp, and the text of the first line of a message."""
    name, colon, rest = names.split(text)
    if not colon and text.endswith(":"):
        name, rest = text[:-1], ""  # followed by lines of text
    elif not colon:
        return "", text
    if _QUOTES.search(name):
        return "", text  # of a changed subject
    return name.strip(MARKS + "~ \u202f\u00a0"), rest


def _finish(message: Message) -> Message | str:
    """The message with the text that its author wrote, or the reason why it is left out."""
    if not message.author:
        return "system"
    text = _ISOLATES.sub("", message.text).rstrip("\n ")  # these are around mentioned names
    if "](" in text:
        text = _MARKDOWN.sub("", text)
    is_marked = text.startswith("\u200e")
    if "<" in text:
        text = _EDITED.sub("", text)
    if is_marked or "\u200e" in text:
        text = _without_media(text)
    text = text.strip(_MARKS_AND_SPACE)
    first, _, caption = text.partition("\n")
    if (first[-1:] in ">)）" or len(first) < 50 or "maps." in first) and _MEDIA.fullmatch(first):
        text = "" if _FILE_NAME.fullmatch(caption) else caption
    elif len(text) < 80 and text.rstrip(".").casefold() in _DELETED:
        return "deleted"
    elif _POLL.match(text) or _NOTICE.fullmatch(text):
        return "system"
    elif len(text) < 50 and _OMITTED.fullmatch(text):
        return "media"
    elif is_marked:
        return "media" if _MEDIA_WORDS.search(text) else "system"
    return message._replace(text=text) if text else "media"


def _without_media(text: str) -> str:
    """A text of an iPhone without the note at its end that a file or a picture is left out."""
    head, _, tail = text.rpartition("\u200e")
    if head.strip(MARKS + " ") and (tail.startswith("<") or _MEDIA_WORDS.search(tail)) and "\n" not in tail:
        return "" if "•" in head else head.rstrip(MARKS + " \n")
    return text


FORMATS = (ChatFormat("WhatsApp", lambda start: _style(start) is not None, _read),)
