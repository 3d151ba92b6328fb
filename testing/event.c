/* See event.h. */
#include "event.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Returns how many bytes of the text, besides a terminating zero, fit into max bytes. */
static size_t part_of(const char *text, size_t max)
{
    size_t n = strlen(text);
    return n < max ? n : max - 1;
}

/* Sends one packet with the first text_length bytes of the event's text. */
static void send_packet(int socket, const struct cp__event *event, size_t text_length)
{
    static const char end = 0;
    size_t name_length =
        part_of(event->name, sizeof(((struct cp__event_packet *)0)->body) - CP__EVENT_TEXT_MAX);
    struct cp__event_head head = {
        .kind = event->kind,
        .outcome = event->outcome,
        .number = event->number,
        .printed = event->printed,
        .name_size = name_length + 1,
        .text_size = text_length + 1,
    };
    struct iovec parts[] = {
        {&head, sizeof(head)},     {(char *)(size_t)event->name, name_length},
        {(char *)(size_t)&end, 1}, {(char *)(size_t)event->text, text_length},
        {(char *)(size_t)&end, 1},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = sizeof(parts) / sizeof(parts[0])};
    while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

void cp__event_send_from_handler(int socket, const struct cp__event *event)
{
    struct cp__event part = *event;
    part.text = event->text ? event->text : "";
    size_t n;
    do {
        n = part_of(part.text, CP__EVENT_TEXT_MAX);
        send_packet(socket, &part, n);
        part.text += n;
    } while (*part.text);
}

bool cp__event_receive(int socket, struct cp__event *event, struct cp__event_packet *packet)
{
    ssize_t n;
    while ((n = recv(socket, packet, sizeof(*packet), MSG_DONTWAIT)) < 0 && errno == EINTR)
        ;
    if (n < (ssize_t)sizeof(packet->head))
        return false;
    *event = (struct cp__event){
        .kind = packet->head.kind,
        .outcome = packet->head.outcome,
        .number = packet->head.number,
        .printed = packet->head.printed,
        .name = packet->body,
        .text = packet->body + packet->head.name_size,
    };
    return true;
}
